"""The numbers of a comparison, from made-up runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from potluck.compare.comparing import compare_runs
from potluck.errors import ConfigError
from potluck.results import read_runs
from potluck.significance import interval
from results import made

RNG = np.random.default_rng(0)
CLIENTS = 20
BASE = {seed: RNG.uniform(0.5, 0.9, size=(3, CLIENTS)) for seed in range(3)}


def grid_of_runs(folder: Path, **better: float) -> None:
    """Runs of methods that are better than Standalone, by noise around a mean."""
    for seed, accuracies in BASE.items():
        made.run(folder / f"a/seed-{seed}", "standalone", seed=seed, accuracies=accuracies.tolist())
        for method, by in better.items():
            shifted = accuracies + by + RNG.normal(0, 0.02, size=accuracies.shape)
            made.run(folder / f"b-{method}/seed-{seed}", method, seed=seed, accuracies=shifted.tolist())


def test_all_numbers_are_those_of_scipy(tmp_path: Path) -> None:
    grid_of_runs(tmp_path, fd=0.03, fedproto=0.01, pfedes=0.0)
    runs, _ = read_runs([tmp_path])
    found = compare_runs(runs)
    assert found.warnings == []
    assert [row.group.name for row in found.rows] == ["standalone", "fd", "fedproto", "pfedes"]
    last = {
        name: np.array([[*run.client_accuracies().values()] for run in row.group.runs])
        for row in found.rows
        for name in [row.group.name]
    }
    pvalues = []
    for row in found.rows:
        means = last[row.group.name].mean(axis=1)
        assert row.accuracy.mean == pytest.approx(means.mean())
        assert row.accuracy.deviation == pytest.approx(means.std(ddof=1))
        expected = interval(last[row.group.name])
        assert (row.accuracy.low, row.accuracy.high) == pytest.approx((expected.low, expected.high))
        assert row.accuracy.low < means.mean() < row.accuracy.high
        if row.group.name != "standalone":
            # Seeds are averaged first: one number per client.
            ours, theirs = last[row.group.name].mean(axis=0), last["standalone"].mean(axis=0)
            assert row.difference is not None
            assert row.difference.count == CLIENTS
            assert row.difference.mean == pytest.approx((ours - theirs).mean())
            expected = interval(last[row.group.name] - last["standalone"])
            assert row.spread is not None
            assert (row.spread.low, row.spread.high) == pytest.approx((expected.low, expected.high))
            pvalues.append(stats.ttest_rel(ours, theirs).pvalue)
            assert row.difference.p == pytest.approx(pvalues[-1])
    smallest = min(pvalues)
    assert min(row.p for row in found.rows if row.p is not None) == pytest.approx(3 * smallest)
    assert found.rows[0].difference is None
    assert found.rows[0].spread is None
    assert found.rows[0].p is None
    signed = compare_runs(runs, test="wilcoxon").rows[1].difference
    assert signed is not None
    paired = last["fd"].mean(axis=0) - last["standalone"].mean(axis=0)
    assert signed.p == pytest.approx(stats.wilcoxon(paired, method="exact").pvalue)


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_an_interval_takes_three_seeds_and_is_of_percentages(tmp_path: Path, seeds: int) -> None:
    for seed in range(seeds):
        # So far apart that a t interval would reach from below 0 to above 100 %.
        made.run(tmp_path / f"a{seed}", "standalone", seed=seed, accuracies=((1.0, 0.9 * (seed == 1), 1.0),))
        made.run(tmp_path / f"b{seed}", "fd", seed=seed, accuracies=((1.0, 1.0, 1.0),))
    runs, _ = read_runs([tmp_path])
    base, best = compare_runs(runs).rows
    assert best.spread is not None
    ends = [base.accuracy.low, base.accuracy.high, best.accuracy.low, best.accuracy.high, best.spread.low]
    if seeds < 3:
        assert ends == [None] * 5
    else:
        assert all(end is not None and 0 <= end <= 1 for end in ends)
        assert (best.accuracy.low, best.accuracy.high) == (1.0, 1.0)


def test_costs_in_all_and_to_a_target(tmp_path: Path) -> None:
    made.run(tmp_path / "a", "fd", accuracies=((0.5, 0.5), (0.7, 0.7), (0.6, 0.6)))
    made.run(tmp_path / "b", "fd", seed=1, accuracies=((0.7, 0.7), (0.8, 0.8), (0.9, 0.9)))
    made.run(tmp_path / "c", "fml", accuracies=((0.1, 0.1), (0.6, 0.6), (0.6, 0.5)))
    runs, _ = read_runs([tmp_path])
    first, second = compare_runs(runs, target=0.65).rows
    assert (first.total.rounds, first.total.bytes, first.total.flops) == (3, 3 * 2 * 300, 3 * 2 * 500)
    assert first.total.server_flops == 3 * 2 * 600
    assert first.to_target is not None
    assert (first.to_target.rounds, first.to_target.bytes, first.reached) == (1.5, 1.5 * 2 * 300, 2)
    assert (first.to_target.flops, first.to_target.server_flops) == (1.5 * 2 * 500, 1.5 * 2 * 600)
    assert (second.to_target, second.reached) == (None, 0)
    found = compare_runs(runs)
    assert (found.target, found.target_reason) == (0.6, "which every seed of FD reaches")
    assert [row.to_target.rounds for row in found.rows if row.to_target] == [1.5, 2]
    assert compare_runs(runs, baseline="fml").target == 0.55
    assert compare_runs(runs, baseline="fml").baseline == "fml"


def test_a_target_is_seen_in_every_round_in_which_all_take_part(tmp_path: Path) -> None:
    rounds = ((0.2, 0.2), (0.8, 0.8), (0.9, 0.9))
    made.run(tmp_path / "all", "fd", accuracies=rounds, everyone=[3])
    made.run(tmp_path / "some", "fml", accuracies=rounds, everyone=[3], cohort=[0])
    runs, _ = read_runs([tmp_path])
    assert [row.to_target.rounds for row in compare_runs(runs, target=0.8).rows if row.to_target] == [2, 3]


def test_protocols(tmp_path: Path) -> None:
    rounds = ((0.2, 0.4, 0.9), (0.8, 0.8, 0.1), (0.5, 0.5, 0.5))
    for method in ("fd", "fml"):
        made.run(tmp_path / method, method, accuracies=rounds, validation=(0.9, 0.3, 0.1), cohort=[0, 1])
    runs, _ = read_runs([tmp_path])
    assert compare_runs(runs).rows[0].accuracy.mean == pytest.approx(0.5)
    best = compare_runs(runs, protocol="all-best-validation").rows[0]
    assert best.accuracy.mean == pytest.approx(0.5)
    papers = compare_runs(runs, protocol="papers")
    assert papers.protocol == "participants_best"
    assert papers.rows[0].accuracy.mean == pytest.approx(0.8)
    assert papers.rows[1].difference is None  # of client 2 nothing is known
    assert papers.warnings == [
        "Under the papers' protocol not every client has an accuracy: there is nothing to pair, and no test."
    ]
    everyone = made.run(tmp_path / "x", "fedproto", accuracies=rounds)
    other = made.run(tmp_path / "y", "fedtgp", accuracies=rounds)
    both, _ = read_runs([everyone, other])
    paired = compare_runs(both, protocol="papers").rows[1].difference
    assert paired is not None
    assert (paired.mean, paired.p) == (0.0, 1.0)


def test_clients_without_test_samples(tmp_path: Path) -> None:
    made.run(tmp_path / "a", "fd", accuracies=((0.5, None, 0.2, None),))
    made.run(tmp_path / "b", "fd", seed=1, accuracies=((0.7, 0.5, 0.4, None),))
    made.run(tmp_path / "c", "fml", accuracies=((0.6, None, 0.3, None),))
    made.run(tmp_path / "d", "fml", seed=1, accuracies=((0.8, 0.9, 0.6, None),))
    runs, _ = read_runs([tmp_path])
    found = compare_runs(runs).rows[1].difference
    assert found is not None
    assert found.count == 3  # the fourth client never has any
    assert found.mean == pytest.approx((0.1 + 0.4 + 0.15) / 3)


def test_methods_of_one_name_and_names_with_capitals(tmp_path: Path) -> None:
    for name, setting in {"a": "'1'", "b": "1", "c": "'Big'"}.items():
        config = made.run(tmp_path / name, "fd") / "config.toml"
        config.write_text(f"mine = {setting}\n{config.read_text()}")
    runs, _ = read_runs([tmp_path])
    found = compare_runs(runs, baseline="fd mine=Big")
    assert [row.group.name for row in found.rows] == ["fd mine=1", "fd mine=1", "fd mine=Big"]
    assert found.rows[2].difference is None
    assert all(row.difference and row.p == 1 for row in found.rows[:2])


@pytest.mark.parametrize(("key", "value"), [("partition", "iid"), ("split", "8:2"), ("data", "mnist")])
def test_clients_with_other_samples_are_no_pairs(tmp_path: Path, key: str, value: str) -> None:
    made.run(tmp_path / "a", "fd", accuracies=((0.5, 0.6),))
    made.run(tmp_path / "b", "fd", accuracies=((0.7, 0.9),), settings={key: value})
    runs, _ = read_runs([tmp_path])
    found = compare_runs(runs, compared=[key])
    assert [row.difference for row in found.rows] == [None, None]
    (warning,) = found.warnings
    assert f"differ in {key}, so that a client holds other samples: nothing to pair, and no test." in warning
    assert found.rows[1].accuracy.mean == pytest.approx(0.8)


@pytest.mark.parametrize("clients", [1, 2])
def test_one_seed_and_few_clients(tmp_path: Path, clients: int) -> None:
    made.run(tmp_path / "a", "fd", accuracies=([0.5] * clients,))
    made.run(tmp_path / "b", "fml", accuracies=([0.5] * clients,))
    runs, _ = read_runs([tmp_path])
    row = compare_runs(runs).rows[1]
    assert (row.accuracy.deviation, row.accuracy.low) == (None, None)
    assert row.difference is not None
    assert (row.difference.mean, row.p) == (0.0, None if clients == 1 else 1.0)


def test_what_a_reader_has_to_know(tmp_path: Path) -> None:
    made.run(tmp_path / "a", "fd", accuracies=((0.5, 0.6),))
    made.run(tmp_path / "a1", "fd", seed=1, accuracies=((0.5, 0.6),))
    made.run(tmp_path / "b", "fml", accuracies=((0.5, 0.6, 0.7),), settings={"epochs": 3})
    made.run(tmp_path / "c", "fedproto", seed=7, accuracies=((0.5, 0.6),))
    made.run(tmp_path / "d", "fedtgp", accuracies=((0.5, 0.6),), finished=False)
    runs, _ = read_runs([tmp_path])
    found = compare_runs(runs, compared=["epochs"])
    assert [row.group.name for row in found.rows] == ["fd", "fml", "fedproto"]
    assert all(row.difference is None for row in found.rows)
    assert found.warnings == [
        f"Not finished, and so left out: {tmp_path / 'd'}.",
        "The runs differ in more than what is compared: clients (2, 3).",
        "FML has seeds 0 and FD 0, 1: their clients are paired over 0.",
        "FML and FD have different clients: nothing to pair, and no test.",
        "FedProto has seeds 7 and FD 0, 1: none to pair their clients over.",
    ]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"baseline": "fdd"}, "unknown baseline 'fdd': did you mean 'fd'"),
        ({"protocol": "paper"}, "unknown protocol 'paper': did you mean 'papers'"),
        ({"test": "z"}, "unknown test 'z'. Known: t, wilcoxon"),
        ({"target": 80}, "--target 80 is no accuracy: give a share such as 0.8"),
        ({"target": math.nan}, "is no accuracy"),
    ],
)
def test_bad_choices(tmp_path: Path, choice: dict[str, str], said: str) -> None:
    runs, _ = read_runs([made.run(tmp_path / "a", "fd")])
    with pytest.raises(ConfigError, match=said):
        compare_runs(runs, **choice)  # type: ignore[arg-type]


def test_nothing_to_compare() -> None:
    with pytest.raises(ConfigError, match="no finished run to compare yet"):
        compare_runs([])
