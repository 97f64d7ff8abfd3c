"""The engine for GPUs: clients of one architecture are stacked, and step together."""

from potluck.engines.stacked.engine import Stacked

__all__ = ["Stacked"]
