"""Tests of paired differences, and the correction for making several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        p: How probable so large a difference would be if there were none; None with fewer than two pairs.
    """

    count: int
    mean: float | None
    p: float | None


def paired_t(differences: ArrayLike) -> Paired:
    """The two-sided paired t-test. Differences that are all zero show nothing: p is 1.

    >>> round(paired_t([0.02, 0.01, 0.04, 0.03]).p, 4)
    0.0305
    """
    from scipy.stats import ttest_1samp

    known = _known(differences)
    if len(known) < 2:
        return _untested(known)
    if np.ptp(known) == 0:  # a division by zero otherwise: equal differences leave nothing to chance
        return Paired(len(known), float(known[0]), float(known[0] == 0))
    return Paired(len(known), float(known.mean()), float(ttest_1samp(known, 0).pvalue))


def wilcoxon(differences: ArrayLike) -> Paired:
    """Wilcoxon's signed-rank test, two-sided, without zeros: exact up to 50 pairs without ties, else the normal law.

    It asks whether differences lie about 0 evenly, and not how large their mean is; few large ones count less.
    """
    from scipy.stats import wilcoxon as signed_rank

    known = _known(differences)
    if len(known) < 2:
        return _untested(known)
    moved = known[known != 0]
    exact = len(np.unique(np.abs(moved))) == len(moved) <= _EXACT
    p = signed_rank(moved, method="exact" if exact else "asymptotic").pvalue if len(moved) else 1.0
    return Paired(len(known), float(known.mean()), float(p))


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


def _untested(known: NDArray[np.float64]) -> Paired:
    return Paired(len(known), float(known.mean()) if len(known) else None, None)
