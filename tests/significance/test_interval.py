"""The interval over seeds and clients: as SciPy has it, within bounds, and absent where there are too few seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from potluck.significance import Interval, interval

seeds = st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=3, max_size=4)


def test_clients_that_agree_leave_the_bootstrap_over_seeds() -> None:
    means = [0.61, 0.64, 0.72, 0.75]
    found = interval([[mean] * 5 for mean in means])
    expected = stats.bootstrap((means,), np.mean, n_resamples=9_999, method="percentile", rng=np.random.default_rng(0))
    assert found.low == pytest.approx(expected.confidence_interval.low)
    assert found.high == pytest.approx(expected.confidence_interval.high)
    assert found.mean == pytest.approx(np.mean(means))
    assert found.deviation == pytest.approx(np.std(means, ddof=1))


def test_seeds_that_agree_leave_the_bootstrap_over_clients() -> None:
    clients = np.random.default_rng(4).uniform(0.4, 0.9, 50)
    found = interval([clients] * 4)
    # Four times the clients, drawn alike.
    whole = stats.bootstrap((np.tile(clients, 4),), np.mean, method="percentile", rng=np.random.default_rng(0))
    assert found.low == pytest.approx(whole.confidence_interval.low, abs=0.003)
    assert found.high == pytest.approx(whole.confidence_interval.high, abs=0.003)


def test_its_width_is_that_of_both_sources() -> None:
    generator = np.random.default_rng(5)
    values = 0.7 + generator.normal(0, 0.03, (30, 1)) + generator.normal(0, 0.1, (30, 40))
    found = interval(values)
    over_seeds = values.mean(axis=1).var() / 30
    over_clients = (values.var(axis=1) / 40).mean() / 30
    reach = stats.norm.ppf(0.975) * math.sqrt(over_seeds + over_clients)
    assert found.low == pytest.approx(values.mean() - reach, abs=0.1 * reach)
    assert found.high == pytest.approx(values.mean() + reach, abs=0.1 * reach)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_it_holds_the_mean_stays_in_range_and_is_the_same_again(values: list[list[float]]) -> None:
    found = interval(values)
    assert found.low is not None and found.mean is not None and found.high is not None
    assert min(map(min, values)) <= found.low + 1e-15
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.high <= max(map(max, values)) + 1e-15
    assert interval(values) == found


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), max_size=2))
def test_two_seeds_have_no_interval(values: list[list[float]]) -> None:
    found = interval(values)
    assert (found.count, found.low, found.high) == (len(values), None, None)
    assert (found.deviation is None) == (len(values) < 2)


def test_what_does_not_count() -> None:
    assert interval([]) == Interval(0, None, None, None, None)
    assert interval([[math.nan], []]) == Interval(0, None, None, None, None)
    assert interval([[0.5], [math.nan]]) == Interval(1, 0.5, None, None, None)
    assert interval([[0.5], [0.5]]) == Interval(2, 0.5, 0.0, None, None)
    assert interval([[0.5, math.nan], [0.5], [0.5, 0.5, 0.5]]) == Interval(3, 0.5, 0.0, 0.5, 0.5)
    # A seed counts once, however many clients it has.
    assert interval([[0.0] * 9, [1.0]]).mean == 0.5


@pytest.mark.parametrize(("seed_deviation", "least"), [(0.0, 0.93), (0.01, 0.85), (0.04, 0.7)])
def test_how_often_it_holds_the_truth_with_three_seeds(seed_deviation: float, least: float) -> None:
    generator = np.random.default_rng(6)
    held = []
    for _ in range(60):
        seeds = 0.8 + generator.normal(0, seed_deviation, (3, 1)) + generator.normal(0, 0.08, (3, 60))
        found = interval(seeds)
        assert found.low is not None and found.high is not None
        held.append(found.low <= 0.8 <= found.high)
    assert np.mean(held) >= least
