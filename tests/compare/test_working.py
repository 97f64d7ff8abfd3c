"""How one run of a comparison ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from compare.test_places import cells
from potluck.compare.places import Place
from potluck.compare.working import Stop, run_place
from potluck.errors import RunError
from potluck.run.folder import RunFolder


def test_a_run_that_cannot_be_written_has_failed(
    no_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RunError("cannot write x: No space left on device.")

    monkeypatch.setattr(RunFolder, "append", full)
    (cell,) = cells("standalone", models=["mlp-4"])
    place = Place(cell, tmp_path / "run")
    outcome = run_place(place, lambda *_: None, Stop())
    assert (outcome.verdict, outcome.text) == ("failed", "cannot write x: No space left on device.")


def test_a_run_that_another_process_began_meanwhile_is_left_to_it(
    no_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = cells("standalone", models=["mlp-4"])
    place = Place(cell, tmp_path / "run")
    create = RunFolder.create

    def too_late(path: Path, *rest: object) -> RunFolder:
        create(path, cell.config.complete()).close()  # what the other process did just now
        return create(path, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(RunFolder, "create", too_late)
    assert run_place(place, lambda *_: None, Stop()).verdict == "busy"
