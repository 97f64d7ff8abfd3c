"""The folder of a run."""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from potluck import __version__
from potluck.errors import ChangedRunError, RunError
from potluck.messages import command
from potluck.run.draft import new_draft, remove_stale_drafts
from potluck.run.files import read_bytes, read_json, read_text, reason, refuse_links, walk, write_bytes, write_json
from potluck.run.inputs import NAME as INPUTS
from potluck.run.lines import Lines, Mark, read_lines
from potluck.run.lock import Lock
from potluck.run.toml import to_toml
from potluck.settings import flat, is_shallow

_FIXED = ("config.toml", "environment.json", INPUTS)
"""What a run's folder begins with, and nothing changes."""
_FOLDERS = ("checkpoint", "clients")
_PART = re.compile(r"\..+\.\d+\.part")
_MOST = 1 << 28
"""Bytes that a file of settings may have."""

_LARGEST = 2**63
"""No whole number of a configuration is as large."""

_EXACT = ("torch", "cpu_threads", "gpu")
"""What must be the same for two parts of a run to be one, bit for bit."""


class RunFolder:
    """A run on disk: ``config.toml``, ``environment.json``, records, checkpoints, the clients' networks, a summary.

    Use :meth:`create` for a new run and :meth:`open` for one that exists.
    """

    def __init__(self, path: Path, lock: Lock | None = None) -> None:
        self.path = path
        self._lock = lock or Lock(path)
        self._lines = Lines(path)
        self._as_found: dict[str, object] = {}

    @classmethod
    def create(cls, path: Path, config: dict[str, Any], inputs: dict[str, Any] | None = None) -> RunFolder:
        """Make the folder, with its configuration in it, at once: it is there with all of it or not at all.

        No other process can run in it from the beginning.
        """
        refuse_existing(path)
        lock = new_draft(path)
        draft = lock.folder
        try:
            write_bytes(draft / "config.toml", to_toml(config).encode())
            write_json(draft / "environment.json", environment())
            if inputs is not None:
                write_json(draft / INPUTS, inputs)
            draft.rename(path)
        except (OSError, RunError) as error:
            lock.close()
            shutil.rmtree(draft, ignore_errors=True)
            raise RunError(f"cannot make the run folder {path}: {reason(error).rstrip('.')}.") from error
        lock.folder = path
        made = cls(path, lock)
        made.lock()
        return made

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A run that exists."""
        try:
            (path / "config.toml").lstat()
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            raise RunError(f"no run in {path}: there is no config.toml in it.") from error
        except OSError as error:
            raise RunError(f"cannot look into {path}: {reason(error)}.") from error
        return cls(path)

    def config(self) -> dict[str, Any]:
        """The configuration as it stands in ``config.toml``."""
        path = self.path / "config.toml"
        try:
            config = tomllib.loads(read_text(path, _MOST))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise RunError(f"{path} is not valid TOML: {error}.") from error
        except ValueError as error:  # a number of more digits than Python reads
            raise RunError(f"{path} is not valid TOML: {error}.") from error
        # Dotted keys make tables in tables without end, and what goes through them calls itself for each.
        if not is_shallow(config):
            raise RunError(f"{path} is damaged: it is nested too deeply.")
        for key, value in flat(config).items():
            if not all(map(_can_be_set, _leaves(value))):
                raise RunError(f"{path} is damaged: {key} is no number that a configuration can hold.")
        return config

    def summary(self) -> dict[str, Any] | None:
        """The summary of a finished run."""
        path = self.path / "summary.json"
        if not os.path.lexists(path):
            return None
        summary = read_json(path, _MOST)
        if not isinstance(summary, dict):
            raise RunError(f"{path} is damaged: it is no summary of a run.")
        return summary

    def refuse_finished(self) -> None:
        """Raise unless there is something left to run."""
        if self.summary() is not None:
            raise RunError(f"{self.path} is finished. See it: {command('show', self.path)}")

    def unfinish(self) -> None:
        """The run goes on: it has no summary yet."""
        try:
            (self.path / "summary.json").unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"cannot remove {self.path / 'summary.json'}: {reason(error)}.") from error

    def moved(self) -> list[str]:
        """How this machine differs from the one the run began on, as far as it can show in the last digits."""
        try:
            before = read_json(self.path / "environment.json", _MOST)
            then = {name: _short(before[name]) for name in _EXACT}
        except (RunError, KeyError, TypeError):
            return ["environment.json is missing or damaged: whether this is the same machine is not known."]
        now = {name: _short(value) for name, value in environment().items()}
        changes = [f"{name} was {then[name]}, now {now[name]}" for name in _EXACT if then[name] != now[name]]
        return [f"Not the machine it began on ({', '.join(changes)}): the last digits may differ."] if changes else []

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary: the run is over."""
        write_json(self.path / "summary.json", summary)

    # ---- one process at a time ------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Keep other processes from running in this folder; given back when this one ends, however it ends."""
        if self._lock.held:
            self._remember()
            return
        if self._as_found:  # it was closed, and is gone on with
            self.check()
        self._lock.take()
        self._remember()
        for name in _FOLDERS:
            refuse_links(self.path / name)

    def is_busy(self) -> bool:
        """Whether a process is running in this folder, as far as can be seen from here."""
        return self._lock.is_busy()

    def check(self, *, whole: bool = False) -> None:
        """Raise ``ChangedRunError`` unless everything in the folder is as this process found or wrote it.

        Args:
            whole: Read all records again. Otherwise it is seen that they are the same files, of the right length.
        """
        changed = self._changed() or self._lines.changed(whole=whole)
        if changed:
            raise ChangedRunError(
                f"{changed} while the run was going on, and nothing more is written. Put it back as it was and go on "
                f"from the last checkpoint ({command('resume', self.path)}; restore() in Python), or start a new run."
            )

    def tidy(self) -> None:
        """Remove what killed processes left: files they were writing, and drafts of this folder beside it."""
        remove_stale_drafts(self.path)
        try:
            for path in self.path.iterdir():
                if _PART.fullmatch(path.name) and stat.S_ISREG(path.lstat().st_mode):
                    path.unlink()
            for path, mode in walk(self.path / "checkpoint"):
                if _PART.fullmatch(path.name) and stat.S_ISREG(mode):
                    path.unlink()
        except OSError as error:
            raise RunError(f"cannot tidy up {self.path}: {reason(error)}.") from error

    def _remember(self) -> None:
        """Keep in mind what is in the folder, to see whether it stays."""
        if not self._as_found:
            self._as_found = self._fixed()

    def _fixed(self) -> dict[str, object]:
        found: dict[str, object] = {"": _identity(self.path)}
        for name in _FIXED:
            path = self.path / name
            try:
                found[name] = sha256(read_bytes(path, _MOST)).digest() if os.path.lexists(path) else None
            except RunError:
                found[name] = "unreadable"
        return found

    def _changed(self) -> str | None:
        now = self._fixed()
        if now[""] is None:
            return f"{self.path} was deleted or moved"
        if now[""] != self._as_found[""]:
            return f"{self.path} was replaced by another folder"
        for name in _FIXED:
            if now[name] != self._as_found[name]:
                return f"{self.path / name} was {'deleted' if now[name] is None else 'changed'}"
        return f"{self._lock.path} was deleted or replaced" if self._lock.lost else None

    @property
    def going_on(self) -> str:
        """How a run that is not finished goes on, for whoever looks at it."""
        return "It is running." if self.is_busy() else f"Go on with it: {command('resume', self.path)}"

    def close(self) -> None:
        """Close every open file."""
        self._lines.close()
        self._lock.close()

    # ---- records --------------------------------------------------------------------------------------------------

    def append(self, name: str, *records: dict[str, Any]) -> None:
        """Add lines to a file of records, all of them or none, and hand them to the system at once."""
        self._lines.append(name, *records)

    def marks(self) -> dict[str, Mark]:
        """How far each file of records goes, all of which is safe on the disk."""
        return self._lines.marks()

    def cut(self, marks: Mapping[str, Mark]) -> None:
        """Cut the files of records back to where they were."""
        self._lines.cut(marks)

    def records(self, name: str, upto: int | None = None) -> Iterator[dict[str, Any]]:
        """The records of a file, each checked; a last line that is still being written does not count.

        Args:
            name: The file.
            upto: How many bytes of it to read; all without.
        """
        return read_lines(self.path / name, upto)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which folder is at a path, if there is one; a link to it will do."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _leaves(value: Any) -> Iterator[Any]:
    """What is in a value that may be lists and tables of others."""
    if not isinstance(value, list | dict):
        yield value
        return
    for each in value.values() if isinstance(value, dict) else value:
        yield from _leaves(each)


def _can_be_set(value: Any) -> bool:
    """Whether this is none of the numbers that TOML can write and no setting can be, nor always be printed."""
    finite = not isinstance(value, float) or math.isfinite(value)
    return finite and not (isinstance(value, int) and abs(value) >= _LARGEST)


def _short(value: Any) -> str:
    """A value as it stands in a message."""
    text = str(value)
    return text if len(text) <= 60 and text.isprintable() else f"{ascii(text)[:60]}..."


def refuse_existing(path: Path) -> None:
    """Raise if a new run cannot go into ``path``."""
    if os.path.lexists(path):
        other = "."
        if os.path.lexists(path / "summary.json"):
            other = f", or see the run in it, which is finished: {command('show', path)}"
        elif (path / "config.toml").is_file():
            other = f", or go on with it: {command('resume', path)}"
        raise RunError(f"{path} exists already. Give another --out{other}")


def environment() -> dict[str, Any]:
    """What the run ran on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "version": 1,
        "potluck": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cpu_threads": torch.get_num_threads(),
        "gpu": gpu,
        "command": sys.argv,
    }
