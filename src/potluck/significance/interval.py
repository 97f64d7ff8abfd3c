"""The mean over seeds of means over clients, and how far off it may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
LEAST_SEEDS = 3
"""Fewer seeds have no interval: two numbers say next to nothing about how much seeds differ."""
_RESAMPLES = 9_999
_AT_ONCE = 1_000_000
"""Numbers drawn at once, which bounds memory."""


@dataclass(frozen=True)
class Interval:
    """Mean, standard deviation over seeds (of a sample: n - 1) and bootstrap interval of the mean.

    Attributes:
        count: Seeds that have a number.
        mean: Mean over seeds; None without any.
        deviation: Standard deviation over seeds; None below two.
        low: Lower end of the interval; None below :data:`LEAST_SEEDS` seeds.
        high: Upper end.
    """

    count: int
    mean: float | None
    deviation: float | None
    low: float | None
    high: float | None


def interval(seeds: Iterable[ArrayLike], confidence: float = CONFIDENCE) -> Interval:
    """Summarize the numbers of each seed's clients, such as their accuracies.

    The interval is a percentile bootstrap over seeds and clients: seeds are drawn with replacement, and within each
    drawn seed its clients. A mean of drawn numbers is never outside their range, and so the interval is not either.
    The same numbers give the same interval: its draws are fixed.

    Args:
        seeds: For each seed one number per client; what is not finite does not count, nor does a seed without any.
        confidence: Of the interval.

    >>> found = interval([[0.7, 0.9], [0.72, 0.92], [0.74, 0.94]])
    >>> found.count, round(found.mean, 4), round(found.deviation, 4), round(found.low, 4), round(found.high, 4)
    (3, 0.82, 0.02, 0.74, 0.9)
    >>> interval([[0.7, 0.9], [0.72, 0.92]]).low is None
    True
    """
    values = [known for seed in seeds if len(known := _finite(seed))]
    means = np.array([each.mean() for each in values])
    if not len(means):
        return Interval(0, None, None, None, None)
    mean = float(means.mean())
    deviation = float(means.std(ddof=1)) if len(means) > 1 else None
    if len(means) < LEAST_SEEDS:
        return Interval(len(means), mean, deviation, None, None)
    low, high = _bootstrap(values, confidence)
    # Where all numbers are equal, the ends may miss the mean in the last bit.
    return Interval(len(means), mean, deviation, min(low, mean), max(high, mean))


def _bootstrap(values: Sequence[NDArray[np.float64]], confidence: float) -> tuple[float, float]:
    from scipy.stats import bootstrap  # which takes a second to load

    clients = np.random.default_rng(1)

    def mean(drawn: NDArray[np.int64], axis: int) -> NDArray[np.float64]:
        """The mean over drawn seeds, along an axis, of the mean over clients drawn from each of them."""
        means = np.empty(drawn.shape)
        for seed, each in enumerate(values):
            here = drawn == seed
            places = clients.integers(len(each), size=(int(here.sum()), len(each)), dtype=np.int32)
            means[here] = each[places].mean(axis=1)
        return np.asarray(means.mean(axis))

    found = bootstrap(
        (np.arange(len(values)),),
        mean,
        n_resamples=_RESAMPLES,
        batch=max(1, _AT_ONCE // sum(map(len, values))),
        vectorized=True,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64).ravel()
    known: NDArray[np.float64] = numbers[np.isfinite(numbers)]
    return known
