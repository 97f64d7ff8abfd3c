"""Student's t distribution, computed here so that a comparison needs no further package."""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300


def two_sided(t: float, freedom: float) -> float:
    """The probability of a value at least as far from 0 as ``t``.

    >>> round(two_sided(2.776445, 4), 6)
    0.05
    """
    if math.isinf(t):
        return 0.0
    whole = freedom + t * t
    if t * t < 1:  # near 0, where the other way would lose digits
        return 1 - beta_regularized(t * t / whole, 0.5, freedom / 2)
    return beta_regularized(freedom / whole, freedom / 2, 0.5)


@lru_cache
def quantile(confidence: float, freedom: float) -> float:
    """How far from 0 the middle ``confidence`` of the distribution reaches on either side.

    >>> round(quantile(0.95, 4), 6)
    2.776445
    """
    rare, high = 1 - confidence, 1.0
    while two_sided(high, freedom) > rare:
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if two_sided(middle, freedom) > rare else (low, middle)
    return high


def beta_regularized(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_regularized(1 - x, b, a)  # where the fraction below converges quickly
    front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front) / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction 1 + d_1 / (1 + d_2 / (1 + ...)) of I_x(a, b), by Lentz's method."""
    value, up, down = 1.0, 1.0, 0.0
    for step in range(1, 10_000):
        m = step // 2
        if step % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        down = 1 / (1 + d * down or _TINY)
        up = 1 + d / up or _TINY
        value *= up * down
        if abs(up * down - 1) < 1e-15:
            break
    return value
