"""Data: where samples come from, how they are split and dealt to clients, and what a network gets to see of them."""

from __future__ import annotations

from potluck.data.examples import Examples
from potluck.data.partitions import partition
from potluck.data.sources import Source, load
from potluck.data.splits import pools
from potluck.data.transform import Transform

__all__ = ["Examples", "Source", "Transform", "load", "partition", "pools"]
