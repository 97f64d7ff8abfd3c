"""The engine for GPUs: clients of one architecture are stacked, and step together."""
