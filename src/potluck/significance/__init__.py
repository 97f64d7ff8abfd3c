"""How sure a difference is: intervals over seeds, tests paired over clients, corrected for how many were made."""

from __future__ import annotations

from potluck.significance.interval import Interval, interval
from potluck.significance.paired import Paired, holm, paired_t, wilcoxon

__all__ = ["Interval", "Paired", "holm", "interval", "paired_t", "wilcoxon"]
