"""What happens where memory is short: less at the same time, and the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked, roster
from potluck.engines.stacked.course import Course
from potluck.engines.stacked.program import Program
from potluck.engines.stacked.schedule import Plan, Schedule, make_schedule
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.team import Team

from ..made_up import job
from .teams import ROUND, assert_as_loop, given, members
from .test_fallback import same


def crowded(most: int, original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """What a team does, if it has no more clients than that; otherwise it begins, and then there is no memory."""

    def instead(one: Team | Course) -> Iterator[Any]:
        team = one.team if isinstance(one, Course) else one
        for number, result in enumerate(original(one)):
            if len(team.jobs) > most and number == 1:
                raise torch.cuda.OutOfMemoryError("there is none")
            yield result

    return instead


def test_a_team_that_is_too_large_goes_on_in_halves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = given()
    jobs = [job(client) for client in members(8)]
    expected = list(Loop(made).train(ROUND, jobs))
    stacked = Stacked(made)
    monkeypatch.setattr(Course, "steps", crowded(1, Course.steps))
    same(expected, list(stacked.train(ROUND, jobs)))
    assert len(stacked.notes) == 4  # of each architecture, four did not fit and then two
    assert "4 clients with the networks of client 0 do not fit into the memory of cpu at once" in stacked.notes[0]
    assert "going on with 2 at a time" in caplog.records[0].getMessage()
    same(expected, list(stacked.train(ROUND, jobs)))
    assert len(stacked.notes) == 4  # now it is known


@pytest.mark.parametrize("fitting", [1, 2, 3])
def test_teams_that_cannot_be_planned_together_are_planned_apart(fitting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And still train side by side, as far as each of them can be planned."""
    planned: list[int] = []

    def make(plan: Plan, views: int, device: torch.device) -> Schedule:
        if len(plan.keys) > fitting:
            raise torch.cuda.OutOfMemoryError("there is none")
        planned.append(len(plan.keys))
        return make_schedule(plan, views, device)

    made = given()
    jobs = [job(client) for client in members(6)]  # three of each of two architectures
    expected = list(Loop(made).train(ROUND, jobs))
    stacked = Stacked(made, rounding=False, cache=1 << 20)
    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    same(expected, list(stacked.train(ROUND, jobs)))
    monkeypatch.setattr("potluck.engines.stacked.timetable.make_schedule", make)
    same(expected, list(stacked.train(ROUND, jobs)))
    assert max(planned) <= fitting
    assert (stacked.notes == ()) == (fitting == 3)


@pytest.mark.parametrize("step", [0, 1, 5])
def test_teams_that_do_not_fit_side_by_side_train_one_after_another(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original, at_work = Course.steps, set()

    def steps(course: Course) -> Iterator[None]:
        at_work.add(course)
        try:
            for number, _ in enumerate(original(course)):
                if number == step and len(at_work) > 1:
                    raise torch.cuda.OutOfMemoryError("there is none")
                yield
        finally:
            at_work.discard(course)

    made = given()
    jobs = [job(client) for client in members(6)]
    expected = list(Loop(made).train(ROUND, jobs))
    stacked = Stacked(made, rounding=False, cache=1 << 20)
    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(Course, "steps", steps)
    same(expected, list(stacked.train(ROUND, jobs)))
    (note,) = stacked.notes
    assert note == "6 clients do not fit into the memory of cpu side by side: fewer train at the same time from now on."
    same(expected, list(stacked.train(ROUND, jobs)))
    assert stacked.notes == (note,)  # now it is known


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7])
def test_with_memory_for_so_many_clients_all_of_them_train(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made, original = given(), Program.run
    stacked = Stacked(made, cache=1 << 20)

    def run(program: Program) -> None:
        if sum(resident.clients() for resident in stacked._roster._residents.values()) > limit:
            raise torch.cuda.OutOfMemoryError("there is none")
        original(program)

    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(Program, "run", run)
    jobs = [job(client) for client in members(7)]
    expected = list(Loop(made).train(ROUND, jobs))
    for _ in range(3):
        same(expected, list(stacked.train(ROUND, jobs)))
    assert bool(stacked.notes) == (limit < 7)


def test_only_the_memory_of_teams_at_work_is_kept() -> None:
    stacked = assert_as_loop(given(), members(6))
    found = stacked._roster
    one, other = found._residents.values()
    (team,), _ = found.divided([job(members(1)[0])], ROUND)
    assert team.resident is one
    track = team.track
    assert other.clients() == 3
    found.free([team])
    assert team.track is track and other.clients() == 0
    found.free([])
    assert one.clients() == 0


def test_an_evaluation_that_is_too_large_goes_on_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    made = given()
    jobs = [job(client) for client in members()]
    expected = list(Loop(made).evaluate(jobs))
    stacked = Stacked(made)
    monkeypatch.setattr(Team, "evaluations", crowded(1, Team.evaluations))
    assert sorted(stacked.evaluate(jobs), key=lambda evaluation: evaluation.client) == expected


def test_no_memory_for_the_cache_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(*_: Any) -> Tensor:
        raise torch.cuda.OutOfMemoryError("there is none")

    monkeypatch.setattr(Stack, "row", row)
    assert_as_loop(given(), members(), cache=1 << 20)


def test_one_client_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Course, "steps", crowded(0, Course.steps))
    with pytest.raises(torch.cuda.OutOfMemoryError, match="client 0 alone does not fit into the memory of cpu"):
        list(Stacked(given()).train(ROUND, [job(client) for client in members(2)]))


def test_teams_are_cut_to_the_memory_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = members(8)
    monkeypatch.setattr(roster, "_CPU_ROOM", 4 * 3 * 344)  # three clients of the smaller architecture
    sizes: list[int] = []
    original = Course.steps

    def steps(course: Course) -> Iterator[None]:
        sizes.append(len(course.team.jobs))
        return original(course)

    monkeypatch.setattr(Course, "steps", steps)
    assert_as_loop(given(), clients)
    assert sum(sizes) == 8 and max(sizes) < 4


def test_what_is_kept_for_others_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(made: Stacked) -> list[int]:
        return [resident.clients() for resident in made._roster._residents.values()]

    assert kept(assert_as_loop(given(), members(6))) == [3, 3]
    monkeypatch.setattr(roster, "_CPU_ROOM", 4 * 4 * 344)  # four clients of the smaller architecture
    tight = assert_as_loop(given(), members(6))
    assert sorted(kept(tight))[0] == 0


@pytest.mark.parametrize(("ahead", "most"), [(0, 1), (1 << 30, 2)])
def test_no_more_is_fetched_ahead_than_memory_is_worth(ahead: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Course] = []
    largest: list[int] = []

    def fetch(course: Course) -> None:
        fetched.append(course)
        largest.append(len(fetched))
        plain_fetch(course)

    def outcomes(course: Course) -> Iterator[Any]:
        yield from plain_outcomes(course)
        fetched.remove(course)

    plain_fetch, plain_outcomes = Course.fetch, Course.outcomes
    made = given()
    jobs = [job(client) for client in members(6)]  # three of each of two architectures
    expected = list(Loop(made).train(ROUND, jobs))
    stacked = Stacked(made, rounding=False, cache=1 << 20)
    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr("potluck.engines.stacked.engine._AHEAD", ahead)
    monkeypatch.setattr(Course, "fetch", fetch)
    monkeypatch.setattr(Course, "outcomes", outcomes)
    same(expected, list(stacked.train(ROUND, jobs)))
    assert max(largest) == most and not fetched
