"""The mean of a few numbers, and how far off it may be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from potluck.significance.student import quantile

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """Mean, standard deviation (of a sample: n - 1) and t interval of the mean; None where there is none.

    One number has a mean, and nothing that would say how sure it is.
    """

    count: int
    mean: float | None
    deviation: float | None
    low: float | None
    high: float | None


def interval(values: Iterable[float | None], confidence: float = CONFIDENCE) -> Interval:
    """Summarize independent numbers, such as one per seed; what is missing or not a number does not count.

    >>> summary = interval([0.80, 0.82, 0.84])
    >>> round(summary.mean, 4), round(summary.deviation, 4), round(summary.low, 4), round(summary.high, 4)
    (0.82, 0.02, 0.7703, 0.8697)
    """
    known = np.array([value for value in values if value is not None and math.isfinite(value)], dtype=np.float64)
    if not len(known):
        return Interval(0, None, None, None, None)
    mean = float(known.mean())
    if len(known) == 1:
        return Interval(1, mean, None, None, None)
    deviation = float(known.std(ddof=1))
    reach = quantile(confidence, len(known) - 1) * deviation / math.sqrt(len(known))
    return Interval(len(known), mean, deviation, mean - reach, mean + reach)
