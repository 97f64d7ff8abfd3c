"""How sure a number is: intervals over seeds and clients, tests paired over clients, corrected for how many were made.

SciPy computes them, and is loaded when the first of them is asked for.
"""

from __future__ import annotations

from potluck.significance.interval import LEAST_SEEDS, Interval, interval
from potluck.significance.paired import Paired, holm, paired_t, wilcoxon

__all__ = ["LEAST_SEEDS", "Interval", "Paired", "holm", "interval", "paired_t", "wilcoxon"]
