"""Student's t as scipy has it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special, stats

from potluck.significance.student import beta_regularized, quantile, two_sided


@given(st.floats(-60, 60), st.integers(1, 5000))
@example(3e-9, 1)
def test_two_sided_is_scipys(t: float, freedom: int) -> None:
    if abs(t) < 1e-3:  # there scipy's own tail is rounded to a half
        expected = 1 - special.betainc(0.5, freedom / 2, t * t / (freedom + t * t))
    else:
        expected = 2 * stats.t.sf(abs(t), freedom)
    assert two_sided(t, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.floats(0.5, 0.999), st.integers(1, 5000))
def test_quantile_is_scipys(confidence: float, freedom: int) -> None:
    assert quantile(confidence, freedom) == pytest.approx(stats.t.ppf((1 + confidence) / 2, freedom), rel=1e-9)


@given(st.floats(0, 1), st.floats(0.5, 500), st.floats(0.5, 500))
def test_beta_is_scipys(x: float, a: float, b: float) -> None:
    assert beta_regularized(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-8, abs=1e-14)
