"""Checkpoints: the newest whole one counts, and older ones go only when it is whole."""

from __future__ import annotations

import errno
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from potluck.errors import RunError
from potluck.run import checkpoint
from potluck.run.checkpoint import Checkpoints
from potluck.run.lines import Mark
from potluck.run.states import ClientStates

CONFIG: dict[str, Any] = {"seed": 0, "algorithm": {"name": "pfedes", "mu": 0.1}}


class Run:
    """Checkpoints of a run of which every round changes one client and the server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.states = ClientStates(path / "clients")
        self.checkpoints = Checkpoints(path / "checkpoint", self.states)

    def round(self, number: int, client: int = 0) -> None:
        self.states.stage(client, number, {"w": torch.full((3,), float(number))})
        self.states.commit()
        with (self.path / "rounds.jsonl").open("a") as file:
            file.write(f"{number}\n")

    def marks(self) -> dict[str, Mark]:
        content = (self.path / "rounds.jsonl").read_bytes()
        return {"rounds.jsonl": Mark(len(content), zlib.crc32(content)), "clients.jsonl": Mark()}

    def save(self, number: int) -> None:
        self.checkpoints.save(number, CONFIG, self.marks(), {"s": torch.tensor([float(number)])})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Checkpoints of rounds 2 and 4; client 1 has not trained between them."""
    run = Run(tmp_path)
    run.round(1, client=1)
    for number in (2, 3, 4):
        run.round(number)
        if number != 3:
            run.save(number)
    return run


def newest(path: Path) -> int:
    """The round to which a new process would go back, and whether all is as it was then."""
    run = Run(path)
    found = run.checkpoints.newest()
    assert found is not None
    round = found.checkpoint.round
    assert found.server["s"].item() == round
    assert found.checkpoint.config == CONFIG
    assert {name: mark.length for name, mark in found.checkpoint.records.items()} == {
        "rounds.jsonl": 2 * round,
        "clients.jsonl": 0,
    }
    run.states.restore(found.checkpoint.clients)
    states = [run.states.get(client) for client in (0, 1, 2)]
    assert [None if state is None else state["w"].tolist() for state in states] == [[round] * 3, [1.0] * 3, None]
    return round


def test_no_checkpoint_yet(tmp_path: Path) -> None:
    assert Run(tmp_path).checkpoints.newest() is None


def test_newest_counts_and_two_are_kept(run: Run) -> None:
    assert newest(run.path) == 4
    run.round(5)
    run.save(5)
    assert newest(run.path) == 5
    assert sorted(path.name for path in (run.path / "checkpoint").iterdir()) == ["round-00004", "round-00005"]
    files = sorted(str(path.relative_to(run.path / "clients")) for path in run.path.glob("clients/*/*"))
    assert files == [f"0/round-0000{round}.safetensors" for round in (4, 5)] + ["1/round-00001.safetensors"]


def test_what_is_not_a_checkpoint_is_left_alone(run: Run) -> None:
    for name in ("round-7", "round-x", "notes"):
        (run.path / "checkpoint" / name).mkdir()
    assert newest(run.path) == 4
    run.round(5)
    run.save(5)
    assert {"round-7", "round-x", "notes"} <= {path.name for path in (run.path / "checkpoint").iterdir()}


def _edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _fields(path: Path, **fields: object) -> None:
    """Alter what a manifest says, checksum and all that guards it being as they were."""
    envelope = json.loads(path.read_text())
    envelope["checkpoint"] |= fields
    path.write_text(json.dumps(envelope))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "manifest empty": lambda folder: _edit(folder / "manifest.json", lambda _: b""),
    "manifest truncated": lambda folder: _edit(folder / "manifest.json", lambda content: content[:-9]),
    "manifest not text": lambda folder: _edit(folder / "manifest.json", lambda _: b"\xff\xfe"),
    "manifest other JSON": lambda folder: _edit(folder / "manifest.json", lambda _: b"[1]"),
    "manifest a word": lambda folder: _edit(folder / "manifest.json", lambda _: b'"checkpoint"'),
    "manifest a folder": lambda folder: _a_folder(folder / "manifest.json"),
    "manifest of another round": lambda folder: _fields(folder / "manifest.json", round=3),
    "manifest without clients": lambda folder: _fields(folder / "manifest.json", clients={}),
    "manifest of a newer version, altered": lambda folder: _fields(folder / "manifest.json", version=3),
    "server missing": lambda folder: (folder / "server.safetensors").unlink(),
    "server empty": lambda folder: _edit(folder / "server.safetensors", lambda _: b""),
    "server truncated": lambda folder: _edit(folder / "server.safetensors", lambda content: content[:-1]),
    "server too long": lambda folder: _edit(folder / "server.safetensors", lambda content: content + b"x"),
    "server a folder": lambda folder: _a_folder(folder / "server.safetensors"),
    "one bit of a client": lambda folder: _edit(
        folder.parents[1] / "clients/0" / f"{folder.name}.safetensors",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    ),
    "client missing": lambda folder: (folder.parents[1] / "clients/0" / f"{folder.name}.safetensors").unlink(),
    "records short": lambda folder: _edit(
        folder.parents[1] / "rounds.jsonl", lambda content: content[: 2 * int(folder.name[6:]) - 1]
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage(run: Run, damage: str) -> None:
    older, newer = (run.path / "checkpoint" / f"round-0000{round}" for round in (2, 4))
    DAMAGE[damage](newer)
    found = Run(run.path).checkpoints.newest()
    assert found is not None
    assert [problem for problem in found.problems if "The checkpoint of round 4 is not usable: " in problem]
    assert newest(run.path) == 2
    DAMAGE[damage](older)
    with pytest.raises(RunError, match=r"cannot be resumed\. The checkpoint of round 4 .* The checkpoint of round 2 "):
        Run(run.path).checkpoints.newest()


def test_after_damage_the_next_checkpoint_puts_things_right(run: Run) -> None:
    (run.path / "checkpoint/round-00004/server.safetensors").unlink()
    again = Run(run.path)
    found = again.checkpoints.newest()
    assert found is not None
    again.states.restore(found.checkpoint.clients)
    (run.path / "rounds.jsonl").write_text("1\n2\n")
    again.round(3)
    again.save(3)
    assert newest(run.path) == 3
    assert sorted(path.name for path in (run.path / "checkpoint").iterdir()) == ["round-00002", "round-00003"]


def test_shared_file_of_two_checkpoints(run: Run) -> None:
    (run.path / "clients/1/round-00001.safetensors").unlink()
    with pytest.raises(RunError, match="cannot be resumed"):
        Run(run.path).checkpoints.newest()


def test_half_written_is_not_there(run: Run) -> None:
    folder = run.path / "checkpoint/round-00005"
    folder.mkdir()
    assert newest(run.path) == 4
    shutil.copy(run.path / "checkpoint/round-00004/server.safetensors", folder)
    assert newest(run.path) == 4
    found = Run(run.path).checkpoints.newest()
    assert found is not None
    assert found.problems == []  # nothing is wrong with the run
    for number in (2, 4):
        (run.path / f"checkpoint/round-0000{number}/manifest.json").unlink()
    assert Run(run.path).checkpoints.newest() is None


def test_format_of_another_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "VERSION", 3)
    with pytest.raises(RunError, match="was written in format 2, not 3"):
        Run(run.path).checkpoints.newest()


@pytest.mark.parametrize("fails_at", range(1, 4))
def test_a_checkpoint_that_fails_leaves_the_one_before(
    run: Run, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    run.round(5)
    calls, replace = iter(range(1, 100)), Path.replace

    def failing(path: Path, target: Path) -> Path:
        if next(calls) == fails_at:  # the client's file, the server's, the manifest
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        with pytest.raises(RunError, match="No space left on device"):
            run.save(5)
    assert newest(run.path) == 4
    assert not list(run.path.rglob("*.part"))
    run.save(5)
    assert newest(run.path) == 5
