"""Steps that are recorded: that to try them changes nothing, and what happens to those that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from potluck.engines.stacked.capture import Studio

from .small import assert_same, federation, rounding
from .teams import ADAM, assert_as_loop, given, members


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


@pytest.mark.parametrize("name", ["fd", "fedgh", "fedproto", "kt-pfl"])
def test_what_is_collected_by_a_recording_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several batches of a client, of which the last is shorter; and clients have different numbers of them."""
    for module in ("worker", "stacked.evaluate", "stacked.team"):
        monkeypatch.setattr(f"potluck.engines.{module}.EVALUATION_BATCH", 4)
    monkeypatch.setattr("potluck.engines.stacked.track.Studio", Replaying)
    assert_same(federation(name, "loop"), rounding(federation(name, "stacked")))


def test_a_step_that_cannot_be_recorded_is_made_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoGraph:
        def __init__(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")

    studio = Studio(torch.device("cpu"))
    studio._able = True
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", NoGraph)
    made: list[int] = []
    with caplog.at_level("INFO", "potluck"):
        assert studio.record("a", lambda: made.append(1)) is None
    assert made == [1, 1] and not studio.records("a") and studio.records("b")
    assert studio.record("a", lambda: made.append(1)) is None and len(made) == 2
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert caplog.records[0].getMessage().endswith("operation not permitted when stream is capturing")


def test_a_step_like_one_that_was_recorded_before_is_tried_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graph:
        def replay(self) -> None:
            made.append(9)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: nullcontext())
    made: list[int] = []
    known: set[Hashable] = set()
    for number in (1, 2):
        studio = Studio(torch.device("cpu"), known)
        studio._able = True
        recording = studio.record("a", lambda number=number: made.append(number))  # type: ignore[misc]
        assert recording is not None
        recording()
    assert made == [1, 1, 1, 9, 2, 2, 9]  # twice to try, once to record, and the recording itself


def test_memory_that_runs_out_while_a_step_is_recorded_is_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullGraph:
        def __init__(self, *_: Any, **__: Any) -> None:
            try:
                raise torch.cuda.OutOfMemoryError("there is none")
            finally:
                raise RuntimeError("capture was invalidated")

    studio = Studio(torch.device("cpu"))
    studio._able = True
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", FullGraph)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        studio.record("a", lambda: None)
