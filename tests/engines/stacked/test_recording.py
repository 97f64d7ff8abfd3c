"""Steps that are recorded: when, that to try them changes nothing, and what happens to those that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch

from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked, engine
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.course import Course
from potluck.engines.stacked.program import Program
from potluck.engines.stacked.stack import Stack

from ..made_up import full_model, job, member
from .teams import ADAM, ROUND, assert_as_loop, given, members
from .test_fallback import same


class Graph:
    """Records nothing."""

    def capture_begin(self, **_: Any) -> None:
        pass

    def capture_end(self) -> None:
        pass

    def replay(self) -> None:
        pass


class Replaying(Studio):
    """Does as on a GPU: tries a step twice before it is first made, and then makes it as it was recorded."""

    def __init__(self, device: torch.device, known: set[Hashable]) -> None:
        super().__init__(device, known)
        self._able = True

    def record(self, name: Hashable, step: Callable[[], None]) -> Callable[[], None] | None:
        step()
        step()
        return step


def test_trying_a_step_to_record_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.engines.stacked.track.Studio", Replaying)
    assert_as_loop(given(**ADAM), members(), rounding=True, cache=1 << 20)
    assert_as_loop(given(), members(), rounding=True)
    assert_as_loop(given(epochs=1, batch_size=100), members(), rounding=True)  # a single step


def test_a_step_that_cannot_be_recorded_is_made_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoGraph(Graph):
        def capture_begin(self, **_: Any) -> None:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")

    studio = Studio(torch.device("cpu"))
    studio._able = True
    monkeypatch.setattr(torch.cuda, "CUDAGraph", NoGraph)
    made: list[int] = []
    with caplog.at_level("INFO", "potluck"):
        assert studio.record("a", lambda: made.append(1)) is None
    assert made == [1, 1] and not studio.records("a") and studio.records("b")
    assert studio.record("a", lambda: made.append(1)) is None and len(made) == 2
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert caplog.records[0].getMessage().endswith("operation not permitted when stream is capturing")


def test_a_step_like_one_that_was_recorded_before_is_tried_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nine(Graph):
        def replay(self) -> None:
            made.append(9)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Nine)
    made: list[int] = []
    known: set[Hashable] = set()
    for number in (1, 2):
        studio = Studio(torch.device("cpu"), known)
        studio._able = True
        recording = studio.record("a", lambda number=number: made.append(number))  # type: ignore[misc]
        assert recording is not None
        recording()
    assert made == [1, 1, 1, 9, 2, 2, 9]  # twice to try, once to record, and the recording itself


@pytest.mark.parametrize("enough", [False, True])
@pytest.mark.parametrize("spoilt", [False, True])
def test_where_memory_runs_out_a_step_is_recorded_again_with_all_that_there_is(
    enough: bool, spoilt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed: list[bool] = []

    class FullGraph(Graph):
        def capture_end(self) -> None:
            if spoilt and not (freed and enough):
                raise RuntimeError("capture was invalidated")

    def step() -> None:
        if tried and not (freed and enough):
            raise torch.cuda.OutOfMemoryError("there is none")
        tried.append(1)

    tried: list[int] = []
    studio = Studio(torch.device("cpu"), {"a"})
    studio._able = True
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FullGraph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append(True))
    if enough:
        assert studio.record("a", step) is not None
    else:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            studio.record("a", step)
    assert freed == [True] and studio.records("a")


def test_teams_of_one_architecture_are_each_in_a_mode_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is evaluated already while the other still trains, with batch norm and dropout."""
    made, stacked = given(), Stacked(given(), rounding=True)
    clients = [member(full_model(number), count=count, number=number) for number, count in enumerate((40, 38, 4))]
    jobs = [job(client) for client in clients]  # a team of two, and one of one
    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr(engine, "_IN_TURN", 1)
    same(list(Loop(made).train(ROUND, jobs)), list(stacked.train(ROUND, jobs)))


def test_a_step_that_is_recorded_anew_waits_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.engines.stacked.track.Studio", Replaying)
    told: list[str] = []
    steps, record = Course.steps, Program.record

    def telling(course: Course) -> Iterator[bool]:
        for records in steps(course):
            told.extend(["waits"] * records)
            yield records

    def recording(program: Program) -> None:
        told.append("records")
        record(program)

    monkeypatch.setattr(Course, "steps", telling)
    monkeypatch.setattr(Program, "record", recording)
    stacked = Stacked(given(), rounding=True)
    for first in (0, 2):  # other clients, whose data lie elsewhere
        list(stacked.train(ROUND, [job(client) for client in members(4)[first : first + 2]]))
    assert told == ["waits", "records"] * 4


def test_who_has_a_step_to_record_waits_until_the_others_have_begun_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    made, original = given(), Program.step
    stacked = Stacked(made, rounding=True)
    jobs = [job(client) for client in members(6)]  # of each architecture two and one
    expected = list(Loop(made).train(ROUND, jobs))
    steps: list[tuple[Stack, int]] = []
    recorded: set[Program] = set()

    def step(program: Program) -> None:
        recorded.add(program)
        steps.append((program.stack, program.room.clients))
        original(program)

    def records(program: Program) -> bool:
        return program.room.clients == 1 and program not in recorded

    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr(engine, "_IN_TURN", 1)
    monkeypatch.setattr(Program, "step", step)
    monkeypatch.setattr(Program, "records", property(records))
    same(expected, list(stacked.train(ROUND, jobs)))
    sizes = [size for _, size in steps]
    assert sizes == sorted(sizes, reverse=True) and set(sizes) == {1, 2}
    alone = [stack for stack, size in steps if size == 1]
    assert sum(one is not other for one, other in pairwise(alone)) == 1  # one after the other
    steps.clear()
    same(expected, list(stacked.train(ROUND, jobs)))
    assert [size for _, size in steps] != sizes  # all of them in turn, as soon as nothing is to be recorded
