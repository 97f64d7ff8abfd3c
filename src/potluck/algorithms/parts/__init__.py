"""What several algorithms are made of, each written once."""
