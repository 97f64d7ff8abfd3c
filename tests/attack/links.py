"""Links, pipes and devices among a run's files: nothing outside is read for ever, changed or deleted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from attack.judging import Case, Verdict, command, refused


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _data_file(make: Callable[[Path], None]) -> Callable[[Path], Verdict]:
    def run(folder: Path) -> Verdict:
        make(folder / "x.npz")
        return refused(command("run", "standalone", "--data", folder / "x.npz", "--out", folder / "run", timeout=20))

    return run


def cases() -> list[Case]:
    """Those of this module."""
    group = "links, pipes, devices"
    return [
        Case(group, "a pipe as data", _data_file(_pipe)),
        Case(group, "a link to /dev/zero as data", _data_file(_zero)),
    ]
