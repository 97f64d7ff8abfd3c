"""Whoever watches a run hears all of it, in order, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

import potluck
from potluck.errors import ConfigError
from test_python_runs import clients


class Log(potluck.Callback):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def run_begun(self, rounds: int, done: int) -> None:
        self.heard.append(("run begun", rounds, done))

    def round_begun(self, round: int, cohort: list[int]) -> None:
        self.heard.append(("round begun", round, cohort))

    def trained(self, done: int, total: int) -> None:
        self.heard.append(("trained", done, total))

    def evaluating(self, done: int, total: int) -> None:
        self.heard.append(("evaluating", done, total))

    def evaluated(self, round: int, scores: dict[str, Any], clients: dict[int, dict[str, Any]]) -> None:
        self.heard.append(("evaluated", round, sorted(clients), scores.keys() == clients[0].keys()))

    def round_over(self, record: dict[str, Any]) -> None:
        assert "event" not in record
        self.heard.append(("round over", record["round"]))

    def run_over(self, summary: dict[str, Any]) -> None:
        self.heard.append(("run over", summary["rounds"]))


def make() -> potluck.Federation:
    return potluck.Federation("pfedes", clients(), fraction=0.67, device="cpu", evaluate_every=2)


def test_all_of_it_in_order() -> None:
    log, other = Log(), Log()
    events: list[Any] = []
    make().run(2, watch=[log, other, events.append])
    first, second = make().cohort(1), make().cohort(2)
    assert log.heard == [
        ("run begun", 2, 0),
        ("round begun", 1, first),
        ("trained", 1, 2),
        ("trained", 2, 2),
        ("round over", 1),
        ("round begun", 2, second),
        ("trained", 1, 2),
        ("trained", 2, 2),
        ("evaluating", 1, 1),
        ("evaluated", 2, [0, 1, 2], True),
        ("round over", 2),
        ("run over", 2),
    ]
    assert other.heard == log.heard
    assert len(events) == len(log.heard)


def test_a_run_that_goes_on_says_so() -> None:
    federation, log = make(), Log()
    federation.run(1, watch=log)
    federation.run(2, watch=log)
    assert [heard for heard in log.heard if heard[0] == "run begun"] == [("run begun", 1, 0), ("run begun", 2, 1)]


def test_a_callback_that_overrides_nothing_hears_everything() -> None:
    assert make().run(1, watch=potluck.Callback()).summary["rounds"] == 1


@pytest.mark.parametrize("watch", [3, [3], Log])
def test_what_cannot_listen(watch: Any) -> None:
    with pytest.raises(ConfigError, match=r"watch: .* cannot listen"):
        make().run(1, watch=watch)
