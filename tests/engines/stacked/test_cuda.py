"""On a GPU: the same numbers, from steps that are recorded and wait for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from potluck import algorithms
from potluck.engines.stacked import Stacked
from potluck.engines.stacked.program import Program
from potluck.federation import Federation

from .small import assert_same, federation

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def programs(given: Federation) -> Iterator[Program]:
    assert isinstance(given.engine, Stacked)
    for resident in given.engine._roster._residents.values():
        for track in resident._tracks.values():
            yield from (one for one in track._kept.values() if isinstance(one, Program))


@pytest.mark.parametrize("name", algorithms.names())
def test_every_algorithm_on_a_gpu(name: str) -> None:
    stacked = federation(name, "auto", device="cuda")
    assert_same(federation(name, "loop", device="cuda"), stacked)
    assert stacked.engine.name == "stacked" and stacked.engine.notes == ()
    assert all(program._recording is not None for program in programs(stacked))


def test_the_gpu_computes_what_the_cpu_does() -> None:
    assert_same(federation("pfedes", "loop"), federation("pfedes", "stacked", device="cuda"), tolerance=1e-7)


@pytest.mark.parametrize("recorded", [True, False])
def test_no_step_waits_for_the_gpu(recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Program.step
    made: list[Program] = []

    def step(program: Program) -> None:
        made.append(program)
        if not recorded:
            program._recording = None
        torch.cuda.set_sync_debug_mode("error")
        try:
            original(program)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(Program, "step", step)
    federation("pfedes", "stacked", device="cuda").run(2, watch=lambda _: None)
    assert made
