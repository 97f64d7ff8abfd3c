"""The folder of a run: made at once, locked, its records whole."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path
from typing import Any

import pytest

import potluck
from potluck.errors import RunError
from potluck.run.folder import RunFolder
from potluck.run.lines import RECORDS
from run.made import client_record, round_record

CONFIG: dict[str, Any] = {"version": 1, "seed": 0, "algorithm": {"name": "pfedes", "mu": 0.1}}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs/run", CONFIG)


def test_made_with_all_that_belongs_in_it(folder: RunFolder) -> None:
    assert sorted(path.name for path in folder.path.iterdir()) == [".lock", "config.toml", "environment.json"]
    assert [path.name for path in folder.path.parent.iterdir()] == ["run"]
    assert tomllib.loads((folder.path / "config.toml").read_text()) == CONFIG
    assert RunFolder.open(folder.path).config() == CONFIG
    environment = json.loads((folder.path / "environment.json").read_text())
    assert {"version", "potluck", "python", "torch", "platform", "gpu", "command"} <= environment.keys()
    mask = os.umask(0o022)
    os.umask(mask)
    assert folder.path.stat().st_mode & 0o777 == 0o777 & ~mask
    assert folder.summary() is None


def test_not_made_at_all_if_anything_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RunError, match="No space left on device"):
        RunFolder.create(tmp_path / "run", CONFIG)
    assert not list(tmp_path.iterdir())


def test_one_that_appears_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def overtaken(draft: Path, path: Path) -> Path:
        (path / "precious").mkdir(parents=True)
        return rename(draft, path)

    monkeypatch.setattr(Path, "rename", overtaken)
    with pytest.raises(RunError) as caught:
        RunFolder.create(tmp_path / "run", CONFIG)
    assert str(caught.value) == f"cannot make the run folder {tmp_path / 'run'}: Directory not empty."
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["run", "run/precious"]


# ---- one process at a time ----------------------------------------------------------------------------------------

LOCK = """
import sys
from pathlib import Path
from potluck.errors import RunError
from potluck.run.folder import RunFolder
for line in sys.stdin:
    try:
        RunFolder.open(Path(line.rstrip())).lock()
        print("locked", flush=True)
    except RunError as error:
        print(error, flush=True)
"""


def test_lock(folder: RunFolder) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(potluck.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", LOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )

    def lock_in_another_process() -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{folder.path}\n")
        process.stdin.flush()
        return process.stdout.readline().rstrip()

    with process:
        folder.close()
        assert not folder.is_busy()
        folder.lock()
        folder.lock()  # one's own is no obstacle
        assert folder.is_busy()
        said = f"{folder.path} is being run by another process: wait for it, or stop it."
        assert lock_in_another_process() == said
        other = RunFolder.open(folder.path)
        with pytest.raises(RunError, match="is being run by another process"):
            other.lock()
        folder.close()
        assert not folder.is_busy()
        other.lock()
        assert lock_in_another_process() == said
        other.close()
        assert lock_in_another_process() == "locked"


def test_lock_of_one_that_cannot_be_written(folder: RunFolder) -> None:
    folder.close()
    (folder.path / ".lock").unlink()
    (folder.path / ".lock").mkdir()
    with pytest.raises(RunError, match=r"run/\.lock is a folder, and has to be a regular file"):
        RunFolder.open(folder.path).lock()


def test_what_was_half_written_is_cleared(folder: RunFolder) -> None:
    (folder.path / ".summary.json.99.part").write_text("{")
    (folder.path / "checkpoint/round-00001").mkdir(parents=True)
    (folder.path / "checkpoint/round-00001/.manifest.json.99.part").write_text("{")
    (folder.path / ".mine.part").touch()
    folder.tidy()
    (folder.path / ".mine.part").unlink()
    assert not list(folder.path.rglob("*.part"))


# ---- records ------------------------------------------------------------------------------------------------------


def lines(folder: RunFolder, name: str = "rounds.jsonl") -> list[int]:
    return [record["round"] for record in RunFolder.open(folder.path).records(name)]


def test_records_are_there_at_once(folder: RunFolder) -> None:
    assert lines(folder) == []
    for number in (1, 2):
        folder.append("rounds.jsonl", {**round_record(number), "text": "grün\n"})
        assert lines(folder) == list(range(1, number + 1))
    folder.append("clients.jsonl", client_record(1), client_record(1, 1))
    assert lines(folder, "clients.jsonl") == [1, 1]
    held = {name: (folder.path / name).read_bytes() for name in RECORDS}
    assert folder.marks() == {name: (len(content), zlib.crc32(content)) for name, content in held.items()}


def test_records_are_cut_back(folder: RunFolder) -> None:
    for number in range(1, 4):
        folder.append("rounds.jsonl", round_record(number))
        folder.append("clients.jsonl", client_record(number))
        if number == 2:
            marks = folder.marks()
    folder.close()
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write('{"round": 4, "coh')
    assert lines(folder) == [1, 2, 3]  # a line that is being written does not count
    again = RunFolder.open(folder.path)
    again.cut(marks)
    assert lines(folder) == lines(folder, "clients.jsonl") == [1, 2]
    assert again.marks() == marks
    again.append("rounds.jsonl", round_record(3))
    assert lines(folder) == [1, 2, 3]
    again.cut({})
    assert lines(folder) == lines(folder, "clients.jsonl") == []


@pytest.mark.parametrize("line", [b"{", b"7", b"{}", b"[]", b"\xff", b""])
def test_records_that_are_damaged(folder: RunFolder, line: bytes) -> None:
    (folder.path / "rounds.jsonl").write_bytes(json.dumps(round_record(1)).encode() + b"\n" + line + b"\n")
    with pytest.raises(RunError, match=r"line 2 of .*rounds\.jsonl is damaged"):
        lines(folder)


def test_records_that_cannot_be_written_are_not_half_written(folder: RunFolder) -> None:
    folder.append("rounds.jsonl", round_record(1))
    written = (folder.path / "rounds.jsonl").read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(written) + 30, before[1]))
    try:
        with pytest.raises(RunError, match=r"cannot write .*rounds\.jsonl: File too large"):
            folder.append("rounds.jsonl", round_record(2), round_record(3))
        assert (folder.path / "rounds.jsonl").read_bytes() == written
        assert folder.marks()["rounds.jsonl"] == (len(written), zlib.crc32(written))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    folder.append("rounds.jsonl", round_record(2))
    folder.close()
    assert lines(folder) == [1, 2]


def test_records_in_a_folder(folder: RunFolder) -> None:
    (folder.path / "rounds.jsonl").mkdir()
    said = r"rounds\.jsonl is a folder, and has to be a regular file"
    for do in (
        lambda: folder.append("rounds.jsonl", round_record(1)),
        lambda: folder.cut({}),
        folder.marks,
        lambda: lines(folder),
    ):
        with pytest.raises(RunError, match=said):
            do()


def test_record_with_nan_is_refused_whole(folder: RunFolder) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        folder.append("rounds.jsonl", round_record(1), {**round_record(2), "loss": float("nan")})
    assert lines(folder) == []


# ---- the end ------------------------------------------------------------------------------------------------------


def test_finished(folder: RunFolder) -> None:
    folder.refuse_finished()
    folder.finish({"rounds": 3})
    assert folder.summary() == {"rounds": 3}
    with pytest.raises(RunError, match=r"is finished\. See it: potluck show"):
        folder.refuse_finished()
