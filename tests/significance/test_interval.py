"""The interval over seeds as scipy has it, and where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from potluck.significance import Interval, interval

accuracies = st.lists(st.floats(0, 1), min_size=2, max_size=12)


@given(accuracies)
def test_interval_is_scipys(values: list[float]) -> None:
    found = interval(values)
    assert found.count == len(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.deviation == pytest.approx(np.std(values, ddof=1))
    scale = stats.sem(values)
    if scale > 0:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=scale)
        assert found.low == pytest.approx(low)
        assert found.high == pytest.approx(high)


def test_what_has_no_interval() -> None:
    assert interval([]) == Interval(0, None, None, None, None)
    assert interval([None, math.nan]) == Interval(0, None, None, None, None)
    assert interval([0.5, None]) == Interval(1, 0.5, None, None, None)
    assert interval([0.5, 0.5]) == Interval(2, 0.5, 0.0, 0.5, 0.5)


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    draws = generator.normal(0.8, 0.02, size=(2000, 3))
    covered = sum(bool((found := interval(row)).low <= 0.8 <= found.high) for row in draws)  # type: ignore[operator]
    assert abs(covered / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)
