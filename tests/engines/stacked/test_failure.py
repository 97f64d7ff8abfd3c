"""What fails and when: every client is trained once all the same, as on loop."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked
from potluck.engines.stacked.course import Course
from potluck.engines.stacked.failure import attempt
from potluck.engines.stacked.team import Team
from potluck.engines.stacked.timetable import Timetable
from potluck.errors import TrainingError

from ..made_up import job
from .teams import ROUND, given, members
from .test_fallback import same

pytestmark = pytest.mark.usefixtures("steps_may_fail")


def as_on_a_gpu(stacked: Stacked, monkeypatch: pytest.MonkeyPatch) -> Stacked:
    """Where teams run side by side."""
    monkeypatch.setattr(stacked._roster, "_gpu", True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    return stacked


def until(error: Callable[[Team, int], Exception | None], original: Callable[..., Iterator[Any]]) -> Any:
    """What a team does, until there is an error."""

    def instead(one: Team | Course) -> Iterator[Any]:
        team = one.team if isinstance(one, Course) else one
        for number, result in enumerate(original(one)):
            found = error(team, number)
            if found is not None:
                raise found
            yield result

    return instead


@pytest.mark.parametrize("seed", range(10))
def test_every_client_is_trained_and_evaluated_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)  # noqa: S311  (no secret)
    short, unable = draw.choice((0, 0.02, 0.1)), draw.choice((0.01, 0.05, 0.1))

    def error(team: Team, _: int) -> Exception | None:
        drawn = draw.random()
        if drawn < short and len(team.jobs) > 1:
            return torch.cuda.OutOfMemoryError("there is none")
        return RuntimeError("NYI: not yet") if drawn > 1 - unable else None

    made, jobs = given(), [job(client) for client in members(14)]
    expected, evaluated = list(Loop(made).train(ROUND, jobs)), list(Loop(made).evaluate(jobs))
    stacked = as_on_a_gpu(Stacked(made, rounding=draw.random() < 0.7, cache=draw.choice((0, 1 << 20))), monkeypatch)
    monkeypatch.setattr(Course, "steps", until(error, Course.steps))
    monkeypatch.setattr(Team, "evaluations", until(error, Team.evaluations))
    for _ in range(3):
        same(expected, list(stacked.train(ROUND, jobs)))
        assert sorted(stacked.evaluate(jobs), key=lambda evaluation: evaluation.client) == evaluated
    refused = [resident for resident in stacked._roster._residents.values() if resident.refused is not None]
    assert sum("one by one" in note for note in stacked.notes) == len(refused)
    assert not any(resident.clients() for resident in refused)


def test_others_like_those_who_failed_begin_anew_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are planned for no more, and who is left is not thought to be one of many."""
    left: list[int] = []
    short: list[int] = []
    leave = Timetable.leave

    def note(timetable: Timetable, team: Team) -> None:
        left.append(len(team.jobs))
        leave(timetable, team)

    def error(team: Team, number: int) -> Exception | None:
        if team.clients[0].architecture.key != first:
            if short:
                return None
            short.append(len(team.jobs))
            return torch.cuda.OutOfMemoryError("there is none")
        return RuntimeError("NYI: not yet") if number == 2 and len(team.jobs) == 2 else None

    everybody = members(14)  # seven of each of two architectures, in teams of four, two and one
    first = everybody[0].architecture.key
    made, jobs = given(), [job(client) for client in everybody]
    expected = list(Loop(made).train(ROUND, jobs))
    stacked = as_on_a_gpu(Stacked(made, rounding=True), monkeypatch)
    room = stacked._roster._together
    monkeypatch.setattr(Timetable, "leave", note)
    monkeypatch.setattr(Course, "steps", until(error, Course.steps))
    same(expected, list(stacked.train(ROUND, jobs)))
    assert sorted(left) == [1, 2, 4, 4]  # all that failed or are like those, and who had no memory
    assert [note for note in stacked.notes if "one by one" in note] == [stacked.notes[0]]
    assert stacked._roster._together < room and "7 clients do not fit" in stacked.notes[1]


@pytest.mark.parametrize("text", ["CUDA error: out of memory", "cublas: CUBLAS_STATUS_ALLOC_FAILED when calling"])
def test_memory_may_be_short_in_other_words(text: str) -> None:
    with attempt() as tried:
        raise RuntimeError(text)
    assert not tried.fits and not tried.failure


def test_what_went_well_fits_and_did_not_fail() -> None:
    with attempt() as tried:
        pass
    assert tried.fits and not tried.failure


def test_a_gpu_that_no_longer_works_and_errors_that_are_clear_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class BrokenError(RuntimeError):
        pass

    monkeypatch.setattr(torch, "AcceleratorError", BrokenError, raising=False)
    for error in (
        BrokenError("illegal memory access"),
        TrainingError("no number"),
        KeyboardInterrupt(),
    ):
        with pytest.raises(type(error)), attempt():
            raise error


def test_what_failed_is_on_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "potluck"), attempt() as tried:
        raise RuntimeError("NYI: it is not there yet. Ask others")
    assert tried.failure == "RuntimeError: NYI: it is not there yet"
    with attempt() as tried:
        raise ValueError("no")  # such as a loss may raise: loop says where, when it comes to it
    assert tried.failure == "ValueError: no"
    (record,) = caplog.records
    assert record.exc_info is not None and "Ask others" in str(record.exc_info[1])
