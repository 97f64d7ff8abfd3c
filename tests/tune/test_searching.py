"""The search: on validation accuracy alone, the same again from its runs, the same number of trials for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from potluck.compare.places import Place
from potluck.config import merge
from potluck.errors import RunError
from potluck.tune.proposing import Tried, propose
from potluck.tune.searching import Search, search
from potluck.tune.space import Choice, Range
from results import made

MU = Range(0.01, 0.5, log=False, whole=False)
SPACES = {"pfedes": {"algorithm.mu": MU}, "fedprox": {"algorithm.mu": Range(1e-4, 10, True, False)}, "fd": {}}


def settings(method: str, assignments: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    return merge({"algorithm": method, "rounds": 2, "clients": 2}, dict(assignments))


def runs(test: Callable[[int], float] = lambda _: 0.5, most: int = 1000) -> tuple[Callable[..., None], list[Place]]:
    """Something that makes up runs: mu = 0.2 is best on validation data. And the runs that it was asked for."""
    asked: list[Place] = []

    def carry_out(places: Sequence[Place], _heading: str) -> None:
        for place in places:
            if place.finished:
                continue
            if len(asked) == most:
                raise KeyboardInterrupt
            config = place.cell.config
            mu = float(config.method().model_dump().get("mu", 1.0))
            made.run(
                place.path,
                config.algorithm["name"],
                seed=config.seed,
                accuracies=[[test(len(asked))] * 2] * 2,
                validation=[0.1, 0.9 - abs(math.log(mu / 0.2)) / 20 - config.seed / 100],
                settings={"algorithm.mu": mu} if "mu" in config.algorithm else {},
            )
            asked.append(place)

    return carry_out, asked


def test_it_finds_what_is_best_on_validation_data(tmp_path: Path) -> None:
    carry_out, asked = runs()
    pfedes, fedprox, fd = search(SPACES, 12, [0, 3], settings, tmp_path, carry_out)
    assert [len(each.tried) for each in (pfedes, fedprox, fd)] == [12, 12, 1]
    assert len(asked) == 2 * (12 + 12 + 1)
    assert pfedes.tried[0].values == {"algorithm.mu": 0.1}  # as it was
    assert pfedes.tried[0].score == pytest.approx(0.9 - math.log(2) / 20 - 0.015)
    assert pfedes.best is not None
    assert fedprox.best is not None
    assert 0.14 < pfedes.best.values["algorithm.mu"] < 0.29
    assert 0.05 < fedprox.best.values["algorithm.mu"] < 0.8
    assert pfedes.best.score == max(each.score or 0 for each in pfedes.tried)
    assert asked[0].path == tmp_path / "pfedes/trial-000/seed-0"


def test_test_accuracy_has_no_part_in_it(tmp_path: Path) -> None:
    found = []
    for number, test in enumerate((lambda at: 1 / (at + 2), lambda at: at / 100)):
        carry_out, _ = runs(test)
        found.append(search(SPACES, 7, [0], settings, tmp_path / str(number), carry_out))
    assert found[0] == found[1]


def test_killed_it_goes_on_to_the_same(tmp_path: Path) -> None:
    whole = search(SPACES, 6, [0], settings, tmp_path / "whole", runs()[0])
    for most in (4, 3):
        with pytest.raises(KeyboardInterrupt):
            search(SPACES, 6, [0], settings, tmp_path / "parts", runs(most=most)[0])
    carry_out, asked = runs()
    assert search(SPACES, 6, [0], settings, tmp_path / "parts", carry_out) == whole
    assert len(asked) == 6 + 6 + 1 - 7
    more = search(SPACES, 8, [0], settings, tmp_path / "parts", carry_out)
    assert [each.tried[:6] for each in more[:2]] == [each.tried for each in whole[:2]]


def test_another_seed_tries_others(tmp_path: Path) -> None:
    tried = [Tried({"algorithm.mu": 0.1}, 0.5)]
    proposed = [propose({"algorithm.mu": MU}, tried, "pfedes", seed)["algorithm.mu"] for seed in (0, 0, 1)]
    assert proposed[0] == proposed[1] != proposed[2]


def test_a_changed_space_is_refused(tmp_path: Path) -> None:
    search(SPACES, 3, [0], settings, tmp_path, runs()[0])
    other = {"pfedes": {"algorithm.mu": Range(0.3, 0.31, False, False)}}
    with pytest.raises(RunError, match=r"is there already, with other settings: algorithm.mu was "):
        search(other, 3, [0], settings, tmp_path, runs()[0])


def test_failures_and_values_that_do_not_go_together(tmp_path: Path) -> None:
    space = {"pfedes": {"algorithm.mu": Choice((0.2, 7.0))}}  # 7 is out of the setting's own range
    (found,) = search(space, 6, [0], settings, tmp_path, runs()[0])
    assert {each.score for each in found.tried if each.values["algorithm.mu"] == 7.0} <= {None}
    assert found.best is not None
    assert found.best.values == {"algorithm.mu": 0.2}
    (nothing,) = search(space, 2, [0], settings, tmp_path / "none", lambda _places, _heading: None)
    assert nothing.best is None
    assert Search("fd", {}).best is None


def test_a_trial_that_was_damaged_since_is_named(tmp_path: Path) -> None:
    search({"fd": {}}, 1, [0], settings, tmp_path, runs()[0])
    (tmp_path / "fd/trial-000/seed-0/clients.jsonl").unlink()
    with pytest.raises(RunError, match=r"trial-000/seed-0 is damaged: its rounds\.jsonl and clients\.jsonl"):
        search({"fd": {}}, 1, [0], settings, tmp_path, runs()[0])
