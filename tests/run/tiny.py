"""Runs that take a second: the carried data set, cut short.

As a script this is the command line on that data set, for tests that need a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import potluck
from potluck import cli
from potluck.data import sources
from potluck.data.sources import Source, fashion_mnist_10k

NAME = "fashion-mnist-10k"
ARGUMENTS = ("--clients", "3", "--partition", "iid", "--models", "cnn-5", "--rounds", "1", "--device", "cpu")
"""Of the smallest run there is; a flag given again wins."""
PARTIAL = (
    *("pfedes", "--clients", "6", "--fraction", "0.5", "--partition", "iid", "--models", "cnn-5", "--rounds", "8"),
    *("--device", "cpu", "--set", "checkpoint_every=2", "--set", "evaluate_every=3"),
    *("--set", "algorithm.extractor_epochs=1"),
)
"""Of a run in which few of the clients take part in a round."""


class Result(NamedTuple):
    """What a command ended in."""

    code: int
    out: str
    err: str


Command = Callable[..., Result]


@lru_cache
def load(data_dir: str | Path | None = None) -> Source:
    """The first images of the carried data set."""
    whole = fashion_mnist_10k.load(data_dir)
    return replace(whole, x=whole.x[:120].clone(), y=whole.y[:120].clone())


def call(patch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run the command line in this process on the tiny data set; its exit code."""
    patch.setitem(sources._SOURCES, NAME, load)
    patch.setattr(sys, "argv", ["potluck", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit:
        cli.main()
    assert isinstance(exit.value.code, int)
    return exit.value.code


def start(*arguments: object, real: bool = False) -> subprocess.Popen[str]:
    """Start the command line in a process of its own, on the tiny data set unless it is to be the ``real`` one."""
    program = ["-m", "potluck"] if real else [__file__]
    source = Path(potluck.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process: subprocess.Popen[str]) -> Result:
    """Wait for a process."""
    out, err = process.communicate(timeout=300)
    return Result(process.returncode, out, err)


def wait_for(happened: Callable[[], bool]) -> None:
    """Wait until something has happened; five minutes on a busy machine are no failure."""
    deadline = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in five minutes"
        time.sleep(0.02)


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    """Send this process, which runs a command, a signal; return when the command was asked to stop and has said so.

    A signal that follows at once could arrive as one with it, and the command could go on before it is asked.
    """
    handler, others = signal.getsignal(number), set(threading.enumerate())
    os.kill(os.getpid(), number)
    wait_for(lambda: signal.getsignal(number) is not handler)
    for thread in set(threading.enumerate()) - others:
        thread.join()


def rounds(folder: Path) -> list[dict[str, Any]]:
    """The records of a run's rounds, but for how long each took."""
    records = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    for record in records:
        assert record.pop("seconds") > 0
    return records


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder: the content of each file, and ``None`` for each folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


if __name__ == "__main__":
    sources._SOURCES[NAME] = load
    cli.main()
