"""What is attacked: small data, and runs on them that are made once and copied for every case."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

_FOLDER = "POTLUCK_ATTACK_FOLDER"


def session() -> Path:
    """The folder of this attack, which goes when it is over."""
    return Path(os.environ[_FOLDER])


def new_session() -> Path:
    """Make that folder: in memory where the system has a place for that, for runs wait for the disk at every round."""
    memory = Path("/dev/shm")  # noqa: S108 (a folder of its own is made in it)
    where = memory if "TMPDIR" not in os.environ and os.access(memory, os.W_OK) else None
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="potluck-attack-", dir=where)
    return session()


def once(name: str, make: Callable[[Path], object]) -> Path:
    """What ``make`` makes at the path that it is given; made by the first process that asks, and not to be changed."""
    folder = session() / "made"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / f"{name}.done").exists():
            make(folder / name)
            (folder / f"{name}.done").touch()
    return folder / name


def both(first: Callable[[Path], object], second: Callable[[Path], object]) -> Callable[[Path], None]:
    """Do one thing to a path, and then another."""

    def do(path: Path) -> None:
        first(path)
        second(path)

    return do


def each(pattern: str, do: Callable[[Path], object]) -> Callable[[Path], None]:
    """Do something to every file below a path whose way there is like a pattern."""

    def do_each(path: Path) -> None:
        for found in sorted(path.glob(pattern)):
            if not found.is_dir():
                do(found)

    return do_each


def made_empty(path: Path) -> None:
    """An empty file in place of a folder."""
    shutil.rmtree(path)
    path.touch()


def copy_of(folder: Path, into: Path) -> Path:
    """A copy to be damaged; links stay links."""
    return Path(shutil.copytree(folder, into, symlinks=True))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder: the content of each file, and ``None`` for what is none."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in folder.rglob("*")
    }


def arrays(seed: int = 0, samples: int = 480) -> dict[str, np.ndarray]:
    """Images of 1x8x8 in 4 classes that can be told apart."""
    draws = np.random.default_rng(seed)
    y = np.arange(samples) % 4
    x = draws.integers(0, 120, (samples, 8, 8), dtype=np.uint8)
    x[np.arange(samples), y * 2] += 100
    return {"x": x, "y": y}


def data(seed: int = 0, samples: int = 480) -> Path:
    """Those images as a file."""

    def make(path: Path) -> None:
        write_data(path, arrays(seed, samples))

    return once(f"data-{seed}-{samples}.npz", make)


def write_data(path: Path, images: dict[str, np.ndarray]) -> None:
    """Write images to a file, or over one."""
    with path.open("wb") as file:
        np.savez(file, x=images["x"], y=images["y"])
