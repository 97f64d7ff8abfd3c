"""What a person gets to see: progress, tables."""
