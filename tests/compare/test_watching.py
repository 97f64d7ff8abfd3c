"""What a comparison shows while it runs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from compare.test_grid import settings
from potluck.compare.grid import make_cells
from potluck.compare.places import place
from potluck.compare.running import MOST_JOBS, default_jobs
from potluck.compare.watching import view

EVENTS = (
    {"event": "begin", "round": 1},
    {"event": "round", "round": 2, "accuracy": 0.5, "validation_accuracy": 0.25},
    {"event": "round", "round": 3, "accuracy": None, "validation_accuracy": 0.75},
    {"event": "end", "verdict": "done", "text": ""},
)


def test_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    places = place(make_cells(["fd", "fml"], [0], {}, settings), tmp_path)
    console = Console(file=io.StringIO(), record=True, width=200)
    with view(console, places) as tell:
        for event in EVENTS:
            tell(places[0], event)
        tell(places[1], {"event": "begin", "round": 0})
        tell(places[1], {"event": "end", "verdict": "busy", "text": ""})
        tell(places[1], {"event": "end", "verdict": "failed", "text": "why"})
    lines = console.export_text().splitlines()
    assert lines[0] == "fd seed 0: begins after round 1 of 3"
    assert lines[1].startswith("fd seed 0: done, 1 of 2 runs, ")
    assert lines[2] == "fml seed 0: begins"
    assert lines[3].startswith("fml seed 0: left to the process that runs it, 1 of 2 runs")
    assert lines[4].startswith("fml seed 0: failed, 2 of 2 runs")


def test_bars_on_a_terminal(tmp_path: Path) -> None:
    places = place(make_cells(["fd", "fml"], [0], {}, settings), tmp_path)
    console = Console(file=io.StringIO(), record=True, width=100, force_terminal=True)
    with view(console, places) as tell:
        tell(places[1], {"event": "begin", "round": 2})
        tell(places[1], {"event": "end", "verdict": "busy", "text": ""})
        for event in EVENTS[:-1]:
            tell(places[0], event)
    shown = console.export_text()
    assert "fd seed 0" in shown
    assert "3/6 rounds" in shown  # of all runs: what was begun elsewhere does not count
    assert "3/3 rounds" in shown


@pytest.mark.parametrize(("terminal", "options", "words", "others"), [
    (True, {}, "rounds 50.00 %", "25.00"), (True, {"score": "validation_accuracy"}, "valid. 25.00 %", "50.00"),
    (False, {}, ", accuracy 50.00 %", "25.00"),
    (False, {"score": "validation_accuracy"}, ", validation accuracy 25.00 %", "50.00"),
])  # fmt: skip
def test_only_the_score_that_is_asked_for_is_shown(
    terminal: bool, options: dict[str, Any], words: str, others: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potluck.compare.watching._EVERY", -1.0)
    places = place(make_cells(["fd"], [0], {}, settings), tmp_path)
    console = Console(file=io.StringIO(), record=True, width=200, force_terminal=terminal)
    with view(console, places, **options) as tell:
        for event in EVENTS[:2]:
            tell(places[0], event)
    shown = console.export_text()
    assert words in shown and others not in shown


def test_jobs_do_not_depend_on_what_is_left() -> None:
    cores = torch.get_num_threads()
    cpu = torch.device("cpu")
    assert default_jobs(1, cpu) == 1
    assert default_jobs(100, cpu) == min(cores, MOST_JOBS)
