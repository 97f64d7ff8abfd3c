"""The folder of a new run while it is made: beside its place, under another name, so that it is there whole or not."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from potluck.errors import RunError
from potluck.run.files import reason
from potluck.run.lock import NAME as LOCK
from potluck.run.lock import Lock

_SUFFIX = ".draft"
_NAME = re.compile(rf"\.(.+)\.[a-z0-9_]{{8}}{re.escape(_SUFFIX)}")
_TRIES = 5
_OLD = 24 * 3600.0
"""Seconds after which a draft of another run is abandoned for certain: making one takes a moment."""


def new_draft(path: Path) -> Lock:
    """A new folder for a run that is to be at ``path``, locked; what earlier ones left behind is removed."""
    parent = path.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        remove_stale_drafts(path)
        for _ in range(_TRIES - 1):
            # Another process may take the folder for an abandoned one in the moment before it is locked.
            with suppress(RunError):
                return _locked(path)
        return _locked(path)
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else reason(error)
        raise RunError(f"cannot make a run folder in {parent}: {why}. Give another --out.") from error


def _locked(path: Path) -> Lock:
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent))
    lock = Lock(draft)
    try:
        draft.chmod(0o777 & ~_umask())
        lock.take()
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return lock


def remove_stale_drafts(path: Path) -> None:
    """Remove what a process left that was killed while it made the folder of a run at ``path``.

    Old drafts of other runs beside it go too: many runs are named after the moment at which they begin, and none
    has the same name again. Nothing is removed that a process is still making, or that holds anything else.
    """
    with suppress(OSError):
        for draft in _drafts(path):
            with suppress(OSError, RunError):
                _remove(draft)


def _drafts(path: Path) -> Iterator[Path]:
    for name in os.listdir(path.parent):  # noqa: PTH208 (names alone, of which there may be many)
        if not (match := _NAME.fullmatch(name)):
            continue
        draft = path.parent / name
        there = draft.lstat()
        ours = stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid() if hasattr(os, "getuid") else False
        if ours and (match[1] == path.name or there.st_mtime < time.time() - _OLD):
            yield draft


def _remove(draft: Path) -> None:
    with suppress(OSError):
        draft.rmdir()  # nothing is lost if a process is about to fill it: it makes another
        return
    found = {path.name: path for path in draft.iterdir()}
    if LOCK not in found or not all(_ours(path) for path in found.values()):
        return
    lock = Lock(draft)
    lock.take()  # by which nothing is making it
    try:
        if lock.held:
            # The lock goes last: a half-removed draft can be told for one, and removed by the next.
            for name in sorted(found, key=lambda name: name == LOCK):
                found[name].unlink()
            draft.rmdir()
    finally:
        lock.close()


def _ours(path: Path) -> bool:
    """Whether this is a file that a run's folder begins with, whole or half."""
    name = re.sub(r"^\.(.+)\.\d+\.part$", r"\1", path.name)
    return name in {LOCK, "config.toml", "environment.json", "inputs.json"} and stat.S_ISREG(path.lstat().st_mode)


def _umask() -> int:
    """The user's mask for new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
