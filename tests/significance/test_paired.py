"""The paired tests as scipy has them, how often they fire, and inputs that show nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from potluck.significance import Paired, holm, paired_t, wilcoxon

Test = Callable[[ArrayLike], Paired]
# Multiples of a thousandth, as accuracies are multiples of something: there are ties and zeros among them.
differences = st.lists(st.integers(-80, 80), min_size=2, max_size=120).map(lambda each: np.array(each) / 1000)


@given(differences)
def test_t_is_scipys(values: NDArray[np.float64]) -> None:
    assume(len(np.unique(values)) > 1)
    ours = np.random.default_rng(0).uniform(size=len(values))
    assert paired_t(ours + values - ours).p == pytest.approx(stats.ttest_rel(ours + values, ours).pvalue, rel=1e-8)


def test_published_numbers() -> None:
    # Student's sleep data of 1908, and Darwin's maize of 1876 as Fisher tests it.
    sleep = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    assert paired_t(sleep).p == pytest.approx(0.002833, abs=1e-6)
    maize = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]) / 8
    assert paired_t(maize).p == pytest.approx(0.0497, abs=1e-4)
    assert wilcoxon(maize).p == pytest.approx(0.04126, abs=1e-5)


@given(differences)
def test_wilcoxon_is_scipys(values: NDArray[np.float64]) -> None:
    moved = values[values != 0]
    assume(len(moved))
    exact = len(np.unique(np.abs(moved))) == len(moved) <= 50
    expected = stats.wilcoxon(moved, method="exact" if exact else "asymptotic")
    assert wilcoxon(values).p == pytest.approx(expected.pvalue, rel=1e-9)


def test_holm_by_hand_and_by_its_definition() -> None:
    assert holm([]) == []
    assert holm([0.04]) == [0.04]
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.01, None, 0.02, 0.03, 0.005]) == [0.03, None, 0.04, 0.04, 0.02]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.001, 0.2))
def test_holm_rejects_step_by_step(ps: list[float], level: float) -> None:
    rejected, order = set(), np.argsort(ps, kind="stable")
    for rank, place in enumerate(order):
        if ps[place] * (len(ps) - rank) > level:
            break
        rejected.add(int(place))
    assert {place for place, p in enumerate(holm(ps)) if p is not None and p <= level} == rejected


@pytest.mark.parametrize("test", [paired_t, wilcoxon])
def test_equal_methods_differ_one_time_in_twenty(test: Test) -> None:
    draws = np.random.default_rng(1).normal(0, 0.05, size=(4000, 100))
    fired = np.mean([test(row).p < 0.05 for row in draws])  # type: ignore[operator]
    assert abs(fired - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 4000)


def test_two_points_are_found_among_a_hundred_clients() -> None:
    draws = np.random.default_rng(2).normal(0.02, 0.05, size=(2000, 100))
    assert np.mean([(paired_t(row).p or 0) < 0.05 for row in draws]) >= 0.95


@pytest.mark.parametrize("test", [paired_t, wilcoxon])
def test_what_shows_nothing(test: Test) -> None:
    assert test([]) == Paired(0, None, None)
    assert test([0.1]) == Paired(1, 0.1, None)
    assert test([0.1, math.nan]) == Paired(1, 0.1, None)
    assert test([0.0, 0.0, math.nan]) == Paired(2, 0.0, 1.0)


def test_the_same_difference_everywhere_is_no_chance() -> None:
    assert paired_t([0.25] * 8).p == 0.0
    assert wilcoxon([0.25] * 8).p == pytest.approx(stats.wilcoxon([0.25] * 8, method="asymptotic").pvalue)


def test_rounding_neither_breaks_ties_nor_makes_a_difference_of_none() -> None:
    noisy = [0.4 - 0.3, 0.6 - 0.5, 0.5 - 0.6, 0.9 - 0.6, (0.4 - 0.3 + 0.5 - 0.6) / 2]
    exact = [0.1, 0.1, -0.1, 0.3, 0.0]
    assert noisy[0] != noisy[1] and noisy[-1] != 0
    assert wilcoxon(noisy).p == wilcoxon(exact).p
    assert paired_t([noisy[-1]] * 5).p == 1.0
    assert paired_t(noisy[:2]).p == 0.0
