"""Finding a method's settings on validation data, with the same effort for each method."""
