"""A run whose folder is deleted, moved or changed by others says so, and never that it is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from potluck.errors import ChangedRunError, RunError
from potluck.run.folder import RunFolder
from potluck.run.record import RunRecord
from run.made import client_record, round_record

CONFIG: dict[str, Any] = {"version": 1, "seed": 0, "algorithm": {"name": "pfedes", "mu": 0.1}}


def play(record: RunRecord, round: int) -> None:
    """One round with its checkpoint; client 0 trains in every round, client 1 in the first."""
    clients = (0, 1) if round == 1 else (0,)
    for client in clients:
        record.states.stage(client, round, {"w": torch.tensor([float(round)])})
    record.commit_round(round_record(round, cohort=clients), [client_record(round, client) for client in clients])
    record.checkpoint(round, {"s": torch.tensor([float(round)])})


def _append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def _again(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def _another(path: Path) -> None:
    shutil.copytree(path, path.with_name("copy"))
    path.rename(path.with_name("old"))
    path.with_name("copy").rename(path)


def _linked(run: Path) -> None:
    (run / "config.toml").rename(run / "c")
    (run / "config.toml").symlink_to("c")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (shutil.rmtree, "run was deleted or moved while the run was going on"),
    "moved": (lambda run: run.rename(run.with_name("moved")), "run was deleted or moved"),
    "replaced": (_another, "run was replaced by another folder"),
    "no config": (lambda run: (run / "config.toml").unlink(), "config.toml was deleted"),
    "another config": (lambda run: _append(run / "config.toml", b"\n"), "config.toml was changed"),
    "a config that is a link": (_linked, "config.toml was changed"),
    "no environment": (lambda run: (run / "environment.json").unlink(), "environment.json was deleted"),
    "no lock": (lambda run: (run / ".lock").unlink(), r"\.lock was deleted or replaced"),
    "no rounds": (lambda run: (run / "rounds.jsonl").unlink(), "rounds.jsonl was deleted or replaced"),
    "other rounds": (lambda run: _again(run / "rounds.jsonl"), "rounds.jsonl was deleted or replaced"),
    "rounds cut": (lambda run: os.truncate(run / "rounds.jsonl", 9), r"rounds.jsonl was changed \(it has 9 bytes"),
    "clients longer": (lambda run: _append(run / "clients.jsonl", b"{}\n"), "clients.jsonl was changed"),
    "no states": (lambda run: shutil.rmtree(run / "clients"), "safetensors was deleted or changed"),
    "a state cut": (
        lambda run: os.truncate(run / "clients/1/round-00001.safetensors", 9),
        "round-00001.safetensors was deleted or changed",
    ),
    "no checkpoint": (lambda run: shutil.rmtree(run / "checkpoint"), "server.safetensors was deleted or changed"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("when", ["at the end", "in the next round"])
def test_folder_changed_while_a_run_goes_on(tmp_path: Path, change: str, when: str) -> None:
    run = tmp_path / "run"
    record = RunRecord(run, CONFIG)
    record.begin()
    for round in (1, 2):
        play(record, round)
    do, said = CHANGES[change]
    do(run)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ChangedRunError, match=said):
        if when == "at the end":
            record.finish({"rounds": 2})
        else:
            # Checkpoints and states are looked at when there is a checkpoint.
            play(record, 3)
    record.abandon_round()
    record.checkpoint(2, {"s": torch.tensor([2.0])})  # as a federation does on its way out
    record.close()
    assert sorted(tmp_path.rglob("*")) == before
    assert not list(tmp_path.rglob("summary.json"))


def test_records_edited_in_place(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "run", CONFIG)
    record.begin()
    play(record, 1)
    with (tmp_path / "run/rounds.jsonl").open("r+b") as file:
        file.write(b"[")
    with pytest.raises(ChangedRunError, match="it holds something else than was written"):
        record.finish({"rounds": 1})
    record.close()


def test_records_are_held_to_their_checksum_when_a_run_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    record = RunRecord(run, CONFIG)
    record.begin()
    for round in (1, 2, 3):
        play(record, round)
    record.close()
    content = (run / "clients.jsonl").read_bytes()
    last = content.rindex(b"0.5")
    (run / "clients.jsonl").write_bytes(content[:last] + b"0.9" + content[last + 3 :])
    for to_read in (True, False):
        again = RunRecord(run, CONFIG)
        found = again.restore(to_read=to_read)
        assert "clients.jsonl is missing, too short or changed" in found.problems[0]
        assert [entry["round"] for entry in found.history.rounds] == [1, 2]
        again.close()
    content = (run / "clients.jsonl").read_bytes()
    (run / "clients.jsonl").write_bytes(content.replace(b"0.5", b"0.9", 1))
    now = {path: path.read_bytes() for path in run.rglob("*.jsonl")}
    with pytest.raises(RunError, match="cannot be resumed"):
        RunRecord(run, CONFIG).restore()
    assert {path: path.read_bytes() for path in run.rglob("*.jsonl")} == now


def test_a_run_that_was_closed_goes_on_where_it_was(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "run", CONFIG)
    record.begin()
    play(record, 1)
    record.finish({"rounds": 1})
    record.close()
    record.begin()
    play(record, 2)
    record.close()
    _append(tmp_path / "run/rounds.jsonl", b"{}\n")
    record.begin()
    with pytest.raises(RunError, match=r"rounds\.jsonl is not as this run left it"):
        play(record, 3)
    record.close()


# ---- what killed processes leave ----------------------------------------------------------------------------------


def _draft(run: Path, *names: str) -> Path:
    draft = run.parent / f".{run.name}.abcd1234.draft"
    draft.mkdir()
    for name in names:
        (draft / name).touch()
    return draft


@pytest.mark.parametrize("names", [(), (".lock",), (".lock", "config.toml", ".environment.json.99.part")])
def test_drafts_of_killed_processes_are_removed(tmp_path: Path, names: tuple[str, ...]) -> None:
    run = tmp_path / "run"
    draft = _draft(run, *names)
    folder = RunFolder.create(run, CONFIG)
    assert not draft.exists()
    _draft(run, *names)
    folder.tidy()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    folder.close()


@pytest.mark.parametrize("names", [("config.toml",), (".lock", "notes.txt"), (".lock", "config.toml", "clients")])
def test_what_may_not_be_a_draft_stays(tmp_path: Path, names: tuple[str, ...]) -> None:
    draft = _draft(tmp_path / "run", *names)
    other = _draft(tmp_path / "other", ".lock")  # it may be made in this moment by a machine that locks differently
    RunFolder.create(tmp_path / "run", CONFIG).close()
    assert sorted(path.name for path in draft.iterdir()) == sorted(names)
    assert other.exists()
    os.utime(other, (0, 0))
    RunFolder.create(tmp_path / "run-2", CONFIG).close()
    assert not other.exists()


def test_drafts_in_use_stay(tmp_path: Path) -> None:
    import fcntl

    draft = _draft(tmp_path / "run", ".lock", "config.toml")
    with (draft / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        RunFolder.create(tmp_path / "run", CONFIG).close()
    assert (draft / "config.toml").exists()


def test_no_state_or_checkpoint_stays_that_is_not_needed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    record = RunRecord(run, CONFIG)
    record.begin()
    for round in (1, 2, 3):
        play(record, round)
    record.close()
    expected = sorted(run.rglob("*"))
    (run / "checkpoint/round-00001").mkdir()  # half removed
    (run / "checkpoint/round-00004").mkdir()  # half written
    (run / "checkpoint/round-00004/server.safetensors").touch()
    (run / "clients/1/round-00003.safetensors").touch()
    (run / "clients/0/round-00004.safetensors").touch()
    (run / "clients/7").mkdir()
    again = RunRecord(run, CONFIG)
    again.restore()
    assert sorted(run.rglob("*")) == expected
    again.close()
