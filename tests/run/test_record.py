"""What a federation keeps of itself, and that a round counts as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from potluck.errors import DataError, RunError
from potluck.run.folder import RunFolder
from potluck.run.inputs import Inputs
from potluck.run.record import RunRecord, read_history
from run.made import client_record, round_record

CONFIG: dict[str, Any] = {"version": 1, "seed": 0, "betas": [0.9, 0.99], "algorithm": {"name": "pfedes", "mu": 0.1}}


def play(record: RunRecord, round: int) -> None:
    """One round with one client."""
    record.states.stage(0, round, {"w": torch.tensor([float(round)])})
    record.commit_round(round_record(round, 0.1 * round), [client_record(round, 0, 0.1 * round)])


def server(round: int) -> dict[str, torch.Tensor]:
    return {"s": torch.tensor([float(round)])}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run of five rounds, killed after its checkpoint of round 4."""
    record = RunRecord(tmp_path / "run", CONFIG)
    record.begin()
    for round in range(1, 6):
        play(record, round)
        if round in (2, 4):
            record.checkpoint(round, server(round))
    record.close()
    return tmp_path / "run"


def test_restore(path: Path) -> None:
    record = RunRecord(path, CONFIG)
    found = record.restore()
    assert [entry["round"] for entry in found.history.rounds] == [1, 2, 3, 4]
    assert found.history.client_accuracy == [0.4]
    assert found.server is not None
    assert found.server["s"].item() == 4
    assert (record.states.get(0) or {})["w"].item() == 4
    assert found.problems == []
    record.begin()
    play(record, 5)
    assert [entry["round"] for entry in read_history(RunFolder.open(path)).rounds] == [1, 2, 3, 4, 5]
    record.close()


@pytest.mark.parametrize("error", [DataError("the data set is not there."), ZeroDivisionError(), KeyboardInterrupt()])
def test_after_any_error_the_folder_can_be_tried_again(path: Path, error: BaseException) -> None:
    def fail() -> Inputs:
        raise error

    # The error is kept, and with it everything that was open when it was raised.
    with pytest.raises(type(error)) as _kept:
        RunRecord(path, CONFIG, fail).restore()
    again = RunRecord(path, CONFIG)
    assert again.restore().problems == []
    again.close()


def test_restore_before_the_first_checkpoint(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "run", CONFIG)
    record.begin()
    play(record, 1)
    record.close()
    again = RunRecord(tmp_path / "run", CONFIG)
    found = again.restore()
    assert (found.history.rounds, found.server) == ([], None)
    assert again.states.get(0) is None
    assert (tmp_path / "run/rounds.jsonl").read_bytes() == (tmp_path / "run/clients.jsonl").read_bytes() == b""


def test_restore_keeps_others_out_and_reading_does_not(path: Path) -> None:
    first = RunRecord(path, CONFIG)
    first.restore()
    with pytest.raises(RunError, match="is being run by another process"):
        RunRecord(path, CONFIG).restore()
    before = (path / "rounds.jsonl").read_bytes()
    assert len(RunRecord(path, CONFIG).restore(to_read=True).history.rounds) == 4
    assert (path / "rounds.jsonl").read_bytes() == before
    first.close()


def test_reading_changes_nothing(path: Path) -> None:
    record = RunRecord(path, CONFIG)
    record.restore()
    record.begin()
    play(record, 5)
    record.checkpoint(5, server(5))
    record.finish({"rounds": 5})
    record.close()
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert len(RunRecord(path, CONFIG).restore(to_read=True).history.rounds) == 5
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_copy_by_hard_links_is_a_run_of_its_own(path: Path) -> None:
    shutil.copytree(path, path.with_name("copy"), copy_function=os.link)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    record = RunRecord(path.with_name("copy"), CONFIG)
    record.restore()
    record.begin()
    play(record, 5)
    record.checkpoint(5, server(5))
    record.close()
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_changes_are_named_by_key(path: Path) -> None:
    now = {**CONFIG, "seed": 1, "epochs": 2, "algorithm": {"name": "pfedes", "mu": 0.2}}
    said = "algorithm.mu was 0.1, now 0.2; epochs was None, now 2; seed was 0, now 1. Put it back, or start a new run."
    with pytest.raises(RunError, match=said):
        RunRecord(path, now).restore()


def test_a_round_that_cannot_be_recorded_does_not_count(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = RunRecord(path, CONFIG)
    record.restore()
    record.begin()
    append = RunFolder.append

    def full(folder: RunFolder, name: str, *records: dict[str, Any]) -> None:
        if name == "rounds.jsonl":  # the other one has its lines already
            raise RunError("cannot write: No space left on device.")
        append(folder, name, *records)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", full)
        with pytest.raises(RunError, match="No space left"):
            play(record, 5)
    # As a federation does on its way out, with a server that is ahead.
    record.abandon_round()
    record.checkpoint(5, server(5))
    record.close()
    assert (record.states.get(0) or {})["w"].item() == 4
    with pytest.raises(RunError, match=r"could not be written to .*: go back to before it by restore\(\)"):
        record.begin()
    found = record.restore()
    assert [entry["round"] for entry in found.history.rounds] == [1, 2, 3, 4]
    record.begin()
    play(record, 5)
    record.checkpoint(5, server(5))
    record.close()
    restored = RunRecord(path, CONFIG).restore()
    assert [entry["round"] for entry in restored.history.rounds] == [1, 2, 3, 4, 5]


def test_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = RunRecord(None, CONFIG)
    record.begin()
    play(record, 1)
    record.checkpoint(1, server(1))
    record.finish({})
    record.close()
    assert (record.states.get(0) or {})["w"].item() == 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(RunError, match="without a folder"):
        record.restore()
