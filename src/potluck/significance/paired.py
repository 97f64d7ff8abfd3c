"""Tests of paired differences, and the correction for making several of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from potluck.significance.interval import interval
from potluck.significance.student import two_sided

_EXACT = 50
"""Up to how many differences without ties Wilcoxon's test counts all signs instead of approximating."""
_DIGITS = 12
"""Decimals that count: 0.4 - 0.3 and 0.6 - 0.5 are the same difference, though not to the last bit."""


@dataclass(frozen=True)
class Paired:
    """Differences of pairs, in numbers.

    Attributes:
        count: Pairs that count: both sides are numbers.
        mean: Mean difference; None without pairs.
        low: Lower end of its t interval; None with fewer than two pairs.
        high: Upper end.
        p: How probable so large a difference would be if there were none; None with fewer than two pairs.
    """

    count: int
    mean: float | None
    low: float | None
    high: float | None
    p: float | None


def paired_t(differences: ArrayLike) -> Paired:
    """The two-sided paired t-test. Differences that are all zero show nothing: p is 1.

    >>> round(paired_t([0.02, 0.01, 0.04, 0.03]).p, 4)
    0.0305
    """
    known = _known(differences)
    found = interval(known)
    if found.mean is None or found.deviation is None:
        return Paired(len(known), found.mean, None, None, None)
    if not known.any():
        p = 1.0
    else:
        error = found.deviation / math.sqrt(len(known))
        p = two_sided(found.mean / error if error else math.inf, len(known) - 1)
    return Paired(len(known), found.mean, found.low, found.high, p)


def wilcoxon(differences: ArrayLike) -> Paired:
    """Wilcoxon's signed-rank test, two-sided, without zeros: exact up to 50 pairs without ties, else the normal law.

    It asks whether differences lie about 0 evenly, and not how large their mean is; few large ones count less.
    """
    described = paired_t(differences)
    known = _known(differences)
    moved = known[known != 0]
    if described.p is None:
        return described
    return Paired(described.count, described.mean, described.low, described.high, _signed_rank(moved))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's correction: p-values that may be read as if each were the only one; what is None stays.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    order = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    least = 0.0
    for rank, (p, place) in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * p))
        corrected[place] = least
    return corrected


def _known(differences: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(differences, dtype=np.float64).ravel()
    known: NDArray[np.float64] = values[np.isfinite(values)].round(_DIGITS)
    return known


def _signed_rank(moved: NDArray[np.float64]) -> float:
    n = len(moved)
    if n == 0:
        return 1.0
    sizes, places, ties = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[places]
    positive = float(ranks[moved > 0].sum())
    smaller = min(positive, n * (n + 1) / 2 - positive)
    if len(sizes) == n and n <= _EXACT:
        return min(1.0, 2 * _share_up_to(smaller, n))
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((ties**3 - ties).sum()) / 48
    return math.erfc((n * (n + 1) / 4 - smaller) / math.sqrt(2 * variance))


def _share_up_to(limit: float, n: int) -> float:
    """The share of all choices of signs for the ranks 1 to n whose positive ranks sum up to ``limit`` at most."""
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
    return float(ways[: int(limit) + 1].sum() / 2.0**n)
