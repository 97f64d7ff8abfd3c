"""Accuracy under a named protocol, bytes, FLOPs."""
