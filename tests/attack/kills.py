"""Kills at random moments and before single file operations; every run comes to the same bits, and leaves no file.

Each run is one of four clients with tables, in a process that ends as one that is killed does. Some of the processes
that go on with it are killed as well.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attack import runs
from attack.judging import HELD, Case, Process, Verdict, apart, last_line
from attack.material import once
from potluck import Client, Federation

RANDOM, CHOSEN, ROUNDS = 100, 100, 6
METHODS = {
    "pfedes": {"fraction": 0.5, "extractor_epochs": 1},
    "fedproto": {"fraction": 0.5},
    "kt-pfl": {},
    "fd": {"fraction": 0.75},
}
EVERY = (1, 2, 3)
_DEEDS = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.truncate",
    "os.chmod",
    "shutil.rmtree",
    "tempfile.mkdtemp",
}


def federation(path: Path, method: str, every: int) -> Federation:
    """Four clients with two unlike models; only some of the states stay in memory."""
    draws = torch.Generator().manual_seed(0)
    clients = []
    for number in range(4):
        x, y = torch.randn(8, 5, generator=draws), torch.randint(3, (8,), generator=draws)
        torch.manual_seed(number % 2)
        body = nn.Linear(5, 4), nn.ReLU() if number % 2 else nn.Tanh()
        clients.append(Client(nn.Sequential(*body, nn.Linear(4, 3)), (x, y), test=(x, y), validation=(x, y)))
    settings: dict[str, Any] = METHODS[method]
    public = (torch.randn(4, 5, generator=draws), torch.arange(4) % 3) if method == "kt-pfl" else None
    made = Federation(
        method, clients, out=path, public=public, device="cpu", engine="loop", checkpoint_every=every,
        evaluate_every=2, **settings,
    )  # fmt: skip
    made._record.states._room = 1000
    return made


def go(path: Path, method: str, every: int) -> None:
    """Begin a run, or go on with one."""
    made = federation(path, method, every)
    if path.exists():
        made.restore()
    made.run(ROUNDS)


def undisturbed(method: str, every: int) -> Path:
    """The run that nothing happens to."""

    def make(path: Path) -> None:
        path.mkdir()
        assert apart(lambda: go(path / "run", method, every)).code == 0

    return once(f"unkilled-{method}-{every}", make) / "run"


def seconds(method: str) -> float:
    """How long such a run takes."""

    def make(path: Path) -> None:
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            assert apart(lambda: go(Path(folder) / "run", method, 1)).code == 0
        path.write_text(str(time.perf_counter() - begin))

    return float(once(f"seconds-{method}", make).read_text())


def operations(method: str, every: int) -> int:
    """How many file operations such a run does."""

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            count = Path(folder) / "count"
            assert apart(lambda: _counted(Path(folder) / "made" / "run", method, every, count)).code == 0
            path.write_text(count.read_text())

    return int(once(f"operations-{method}-{every}", make).read_text())


def _counted(path: Path, method: str, every: int, count: Path) -> None:
    path.parent.mkdir()
    done = _before_each(path.parent, lambda _number: None)
    go(path, method, every)
    count.write_text(str(done()))


def _before_each(folder: Path, do: Callable[[int], object]) -> Callable[[], int]:
    """Do something before each file operation of this process in a folder; gives how many there were."""
    lock, done, sync = threading.Lock(), 0, os.fsync

    def count() -> None:
        nonlocal done
        with lock:  # several threads write states
            done += 1
            do(done)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (writing or event in _DEEDS) and str(folder) in str(arguments[0]):
            count()

    def count_and_sync(file: int) -> None:
        count()
        sync(file)

    sys.addaudithook(watch)
    os.fsync = count_and_sync  # type: ignore[assignment]
    return lambda: done


def _killed_before(path: Path, method: str, every: int, number: int) -> None:
    def end(now: int) -> None:
        if now == number:
            runs.end_at_once()

    _before_each(path.parent, end)
    go(path, method, every)


def _to_the_end(path: Path, method: str, every: int) -> Verdict:
    """Go on with a run that was killed, and compare."""
    finished = (path / "summary.json").exists()
    if not finished:
        ran = apart(lambda: go(path, method, every))
        if ran.code != 0:
            return Verdict("traceback" if "Traceback" in ran.err else "silent", f"cannot go on: {last_line(ran)}")
    expected = undisturbed(method, every)
    verdict = runs.same(path, expected)
    if verdict.outcome != "held" or finished:
        return verdict
    return runs.tidy(path, expected)


def _chosen(number: int, folder: Path) -> Verdict:
    method, every = list(METHODS)[number % 4], EVERY[number % 3]
    draws = random.Random(f"chosen {number}")  # noqa: S311
    path, last = folder / "run", operations(method, every)
    # Spread over the whole run: of every method and interval there are some in each part of it.
    before = 1 + (number * last) // CHOSEN
    ran = apart(lambda: _killed_before(path, method, every, before))
    if ran.code != 137:
        return Verdict("broken", f"not killed: {ran.code} {last_line(ran)}")
    if path.exists() and draws.random() < 0.5:
        again = draws.randint(1, max(last - before, 1))
        ran = apart(lambda: _killed_before(path, method, every, again))
        if ran.code not in (0, 137):
            return Verdict("traceback", f"killed once more: {last_line(ran)}")
    return _to_the_end(path, method, every)


def _random(number: int, folder: Path) -> Verdict:
    method, every = list(METHODS)[number % 4], EVERY[number % 3]
    draws = random.Random(f"random {number}")  # noqa: S311
    path, length, kills = folder / "run", seconds(method), 0
    for _ in range(1 + number % 2):
        process = Process(lambda: go(path, method, every))
        # Most of the time goes into starting and training; what is written is at the end of each round.
        end = time.monotonic() + length * draws.uniform(0.05, 1.05)
        while time.monotonic() < end and not process.poll():
            time.sleep(0.001)
        process.kill()
        ran = process.wait()
        kills += ran.code == -9
        if ran.code not in (0, -9):
            return Verdict("traceback", last_line(ran))
        if (path / "summary.json").exists():
            break
    verdict = _to_the_end(path, method, every)
    return Verdict(verdict.outcome, f"{kills} kills") if verdict == HELD else verdict


def cases() -> list[Case]:
    """Those of this module."""
    chosen = [
        Case("killed before a file operation", f"{number}", functools.partial(_chosen, number))
        for number in range(CHOSEN)
    ]
    return chosen + [
        Case("killed at a random moment", f"{number}", functools.partial(_random, number)) for number in range(RANDOM)
    ]
