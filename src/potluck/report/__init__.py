"""What a person gets to see: progress, tables of runs and of networks."""
