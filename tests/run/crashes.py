"""A script: crash a run before each single thing that it does to the disk, resume it, and compare.

The run is small and in one process, which ends at once, as one that is killed does: what it has not handed to the
system is lost. ``crashes.py FOLDER EVERY`` tries every so-many-th thing, and says what happened as JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from potluck import Client, Federation

ROUNDS, CRASH = 5, 9
_DEEDS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}


def federation(path: Path) -> Federation:
    """Four clients with tables and two unlike models; two of four states stay in memory."""
    generator = torch.Generator().manual_seed(0)
    clients = []
    for number in range(4):
        x, y = torch.randn(8, 5, generator=generator), torch.randint(3, (8,), generator=generator)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(5, 4 + number % 2), nn.ReLU(), nn.Linear(4 + number % 2, 3))
        clients.append(Client(model, (x, y), test=(x, y), validation=(x, y)))
    made = Federation(
        "pfedes",
        clients,
        fraction=0.5,
        out=path,
        device="cpu",
        extractor_epochs=1,
        checkpoint_every=2,
        evaluate_every=3,
    )
    made._record.states._room = 1200  # of four states of 528 to 564 bytes
    return made


def run(path: Path) -> None:
    """Run, or go on with it."""
    made = federation(path)
    if path.exists():
        made.restore()
    made.run(ROUNDS)


def result(path: Path) -> dict[str, str]:
    """What came of it, but for times."""
    names = ("rounds.jsonl", "clients.jsonl", "summary.json")
    found = {name: re.sub(r'"seconds": [0-9.e-]+', "", (path / name).read_text()) for name in names}
    newest = max((path / "checkpoint").iterdir())
    found["server"] = (newest / "server.safetensors").read_bytes().hex()
    return found | {
        str(file.relative_to(path)): file.read_bytes().hex() for file in path.glob(f"clients/*/{newest.name}.*")
    }


def in_a_process(do: Callable[[], None]) -> int:
    """The exit code of a process of its own that does this."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            do()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_and_crash(path: Path, number: int) -> None:
    """Run, but end at once before the thing of this number that it would do to the disk."""
    done, fsync, lock = 0, os.fsync, threading.Lock()

    def count() -> None:
        nonlocal done
        with lock:  # several threads write states
            done += 1
            if done == number:
                os._exit(CRASH)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (writing or event in _DEEDS) and str(path.parent) in str(arguments[0]):
            count()

    def count_and_sync(file: int) -> None:
        count()
        fsync(file)

    sys.addaudithook(watch)
    os.fsync = count_and_sync  # type: ignore[assignment]
    run(path)


def main(folder: Path, every: int) -> None:
    """Crash everywhere; what differed, and how many crashes there were."""
    torch.set_num_threads(1)
    whole = folder / "whole" / "run"
    assert in_a_process(lambda: run(whole)) == 0
    expected, wrong, crashes, number = result(whole), [], 0, 1
    while True:
        path = folder / str(number) / "run"
        path.parent.mkdir()
        code = in_a_process(lambda: run_and_crash(path, number))  # noqa: B023
        if code == 0:
            break
        crashes += 1
        finished = (path / "summary.json").exists()
        resumed = finished or in_a_process(lambda: run(path)) == 0  # noqa: B023
        left = [found.name for found in path.rglob("*.part")]
        if code != CRASH or not resumed or result(path) != expected or (left and not finished):
            wrong.append({"crash": number, "code": code, "resumed": resumed, "left": left})
        shutil.rmtree(path.parent)
        number += every
    sys.stdout.write(json.dumps({"crashes": crashes, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
