"""What a folder got from others may hold: links that lead outside, and files in which every checksum is redone."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from potluck.errors import PotluckError, RunError
from potluck.federation import Federation
from potluck.run.folder import RunFolder
from potluck.run.record import RunRecord
from run import crashes
from run.made import client_record, round_record

CONFIG: dict[str, Any] = {"version": 1, "seed": 0, "algorithm": {"name": "pfedes", "mu": 0.1}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with one checkpoint, that of round 1; beside it a folder that is not its own."""
    record = RunRecord(tmp_path / "run", CONFIG)
    record.begin()
    record.states.stage(0, 1, {"w": torch.ones(1)})
    record.commit_round(round_record(1), [client_record(1)])
    record.checkpoint(1, {"s": torch.ones(1)})
    record.close()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/round-00001.safetensors").write_text("precious")
    (tmp_path / "outside/empty").mkdir()
    return tmp_path / "run"


def _link(name: str, to: str) -> Callable[[Path], object]:
    def do(run: Path) -> None:
        path = run / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.symlink_to(run.parent / to)

    return do


def _pipe(name: str) -> Callable[[Path], object]:
    def do(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return do


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "lock": (_link(".lock", "outside/round-00001.safetensors"), r"\.lock is a link, and has to be a regular file"),
    "config": (_link("config.toml", "outside/round-00001.safetensors"), "config.toml is a link"),
    "clients": (_link("clients", "outside"), "clients is a link, and has to be a folder"),
    "a client": (_link("clients/0", "outside"), "clients/0 is a link: only files and folders"),
    "checkpoint": (_link("checkpoint", "outside"), "checkpoint is a link, and has to be a folder"),
    "records": (_link("rounds.jsonl", "outside/round-00001.safetensors"), "rounds.jsonl is a link"),
    "summary": (_link("summary.json", "outside/round-00001.safetensors"), "summary.json is a link"),
    "a state": (
        lambda run: (run / "clients/0/round-00002.safetensors").mkdir(),
        "round-00002.safetensors is a folder, and has to be a regular file: remove it",
    ),
    "a manifest": (_pipe("checkpoint/round-00001/manifest.json"), "manifest.json is a pipe: only files and folders"),
    "records that never end": (_link("clients.jsonl", "/dev/zero"), "clients.jsonl is a link"),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_nothing_outside_is_read_or_changed(run: Path, what: str) -> None:
    change, said = ODD[what]
    change(run)
    with pytest.raises(RunError, match=said):
        RunFolder.open(run).config()
        RunRecord(run, CONFIG).restore()
    outside = run.parent / "outside"
    assert sorted(path.name for path in outside.iterdir()) == ["empty", "round-00001.safetensors"]
    assert (outside / "round-00001.safetensors").read_text() == "precious"


def forge(run: Path, change: Callable[[dict[str, Any]], object], number: int = 1) -> None:
    """Change what a manifest says, and redo its checksum."""
    path = run / f"checkpoint/round-{number:05d}/manifest.json"
    content = json.loads(path.read_text())["checkpoint"]
    change(content)
    crc = zlib.crc32(json.dumps(content, sort_keys=True).encode())
    path.write_text(json.dumps({"crc32": crc, "checkpoint": content}))


FORGED: dict[str, list[object]] = {
    "round": ["1", None, 2, -1, [1]],
    "version": [None, "2", [2]],
    "config": [None, [], {"a": {"b": [[[[]]]]}}],
    "records": [None, {}, {"rounds.jsonl": [0, 0]}, {"rounds.jsonl": 1, "clients.jsonl": 1}],
    "clients": [
        *(None, [], {"x": [1, 1]}, {" 0": [1, 1]}, {"0": None}, {"0": ["1", 1]}, {"0": [9, 1]}),
        {"../../outside": [1, 1]},
    ],
    "server": [None, "1", 1.5],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in FORGED.items() for value in values])
def test_forged_manifest(run: Path, name: str, value: object) -> None:
    forge(run, lambda content: content.update({name: value}))
    with pytest.raises(
        RunError, match=r"cannot be resumed\. The checkpoint of round 1 is not usable: its manifest is "
    ):
        RunRecord(run, CONFIG).restore()


def test_manifest_that_is_deep(run: Path) -> None:
    (run / "checkpoint/round-00001/manifest.json").write_text("[" * 200_000)
    (run / "environment.json").write_text("[" * 200_000)
    with pytest.raises(RunError, match="its manifest is damaged"):
        RunRecord(run, CONFIG).restore()


def test_clients_left_out_of_a_forged_manifest(run: Path) -> None:
    forge(run, lambda content: content["clients"].clear())
    with pytest.raises(RunError, match="not of the clients that trained by its records"):
        RunRecord(run, CONFIG).restore()
    forge(run, lambda content: content.update(records={name: [0, 0] for name in content["records"]}))
    with pytest.raises(RunError, match="its records end with round 0, its checkpoint is of round 1"):
        RunRecord(run, CONFIG).restore()


@pytest.mark.parametrize("content", ["[]", "3", "{}", "[" * 200_000, '{"torch": []}'])
def test_damaged_environment(run: Path, content: str) -> None:
    (run / "environment.json").write_text(content)
    record = RunRecord(run, CONFIG)
    assert "environment.json is missing or damaged" in record.restore().problems[0]
    record.close()


# ---- tensors --------------------------------------------------------------------------------------------------------


def _stopped(path: Path) -> Federation:
    """A federation whose run of three rounds has no summary yet."""
    crashes.federation(path).run(3)
    (path / "summary.json").unlink()
    return crashes.federation(path)


def _change(run: Path, path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    path.write_bytes(safetensors.torch.save(tensors))
    crc = zlib.crc32(path.read_bytes())

    def put(content: dict[str, Any]) -> None:
        if path.name == "server.safetensors":
            content["server"] = crc
        else:
            content["clients"][path.parent.name][1] = crc

    forge(run, put, number=3)


def test_forged_server(tmp_path: Path) -> None:
    run = tmp_path / "run"
    federation = _stopped(run)
    _change(run, run / "checkpoint/round-00003/server.safetensors", lambda tensors: tensors.clear())
    before = (run / "rounds.jsonl").read_bytes()
    with pytest.raises(RunError, match=r"the server's state in .* is damaged: .* does not fit"):
        federation.restore()
    assert (run / "rounds.jsonl").read_bytes() == before


@pytest.mark.parametrize("said", ["is missing from what a client's networks hold", "does not fit the networks"])
def test_forged_client(tmp_path: Path, said: str) -> None:
    run = tmp_path / "run"
    federation = _stopped(run)

    def change(tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name, tensor in tensors.items() if tensor.dim())
        tensor = tensors.pop(name)
        if "fit" in said:
            tensors[name] = torch.cat([tensor, tensor])

    client = min(run.glob("clients/*/round-00003.safetensors"))
    _change(run, client, change)
    federation.restore()
    with pytest.raises(PotluckError, match=said):
        federation.predict(int(client.parent.name), torch.zeros(1, 5))
    federation._record.close()
