"""The folder of a run."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, Any

import torch

from potluck import __version__
from potluck.errors import BusyRunError, RunError
from potluck.messages import command
from potluck.run.files import open_regular, parse_json, read_json, read_text, write_bytes, write_json
from potluck.run.inputs import NAME as INPUTS
from potluck.run.toml import to_toml

RECORDS = ("rounds.jsonl", "clients.jsonl")

_MOST = 1 << 28
"""Bytes that a file of settings may have."""
_EXACT = ("torch", "cpu_threads", "gpu")
"""What must be the same for two parts of a run to be one, bit for bit."""


class RunFolder:
    """A run on disk: ``config.toml``, ``environment.json``, records, checkpoints, the clients' networks, a summary.

    Use :meth:`create` for a new run and :meth:`open` for one that exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: dict[str, FileIO] = {}
        self._lock: IO[bytes] | None = None

    @classmethod
    def create(cls, path: Path, config: dict[str, Any], inputs: dict[str, Any] | None = None) -> RunFolder:
        """Make the folder, with its configuration in it, at once: it is there with all of it or not at all."""
        refuse_existing(path)
        parent = path.parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=parent))
            draft.chmod(0o777 & ~_umask())
        except OSError as error:
            reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror or error
            raise RunError(f"cannot make a run folder in {parent}: {reason}. Give another --out.") from error
        try:
            write_bytes(draft / "config.toml", to_toml(config).encode())
            write_json(draft / "environment.json", environment())
            if inputs is not None:
                write_json(draft / INPUTS, inputs)
            draft.rename(path)
        except (OSError, RunError) as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise RunError(f"cannot make the run folder {path}: {error}") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A run that exists."""
        try:
            (path / "config.toml").lstat()
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            raise RunError(f"no run in {path}: there is no config.toml in it.") from error
        except OSError as error:
            raise RunError(f"cannot look into {path}: {error.strerror or error}.") from error
        return cls(path)

    def config(self) -> dict[str, Any]:
        """The configuration as it stands in ``config.toml``."""
        path = self.path / "config.toml"
        try:
            return tomllib.loads(read_text(path, _MOST))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise RunError(f"{path} is not valid TOML: {error}.") from error
        except ValueError as error:  # a number of more digits than Python reads
            raise RunError(f"{path} is not valid TOML: {error}.") from error

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
        (self.path / "summary.json").unlink(missing_ok=True)

    def moved(self) -> list[str]:
        """How this machine differs from the one the run began on, as far as it can show in the last digits."""
        try:
            before = json.loads((self.path / "environment.json").read_text())
        except (OSError, ValueError):
            return ["environment.json is missing or damaged: whether this is the same machine is not known."]
        now = environment()
        changes = [
            f"{name} was {before.get(name)}, now {now[name]}" for name in _EXACT if before.get(name) != now[name]
        ]
        return [f"Not the machine it began on ({', '.join(changes)}): the last digits may differ."] if changes else []

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary: the run is over."""
        write_json(self.path / "summary.json", summary)

    # ---- one process at a time ------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Keep other processes from running in this folder; given back when this one ends, however it ends."""
        if self._lock is not None:
            return
        try:
            import fcntl
        except ImportError:  # pragma: no cover (Windows has no such lock)
            return
        try:
            lock = (self.path / ".lock").open("wb")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lock = lock
            for path in (*self.path.glob(".*.part"), *self.path.glob("checkpoint/*/.*.part")):
                path.unlink()  # what a killed process was writing
        except BlockingIOError as error:
            raise BusyRunError(f"{self.path} is being run by another process: wait for it, or stop it.") from error
        except OSError as error:
            raise RunError(f"cannot write in {self.path}: {error.strerror or error}.") from error

    def is_busy(self) -> bool:
        """Whether a process is running in this folder, as far as can be seen from here."""
        try:
            import fcntl

            with (self.path / ".lock").open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except (ImportError, OSError):  # there is no lock, or none that can be asked for
            return False
        return False

    @property
    def going_on(self) -> str:
        """How a run that is not finished goes on, for whoever looks at it."""
        return "It is running." if self.is_busy() else f"Go on with it: {command('resume', self.path)}"

    def close(self) -> None:
        """Close every open file."""
        for file in (*self._open.values(), *([self._lock] if self._lock else [])):
            file.close()
        self._open.clear()
        self._lock = None

    # ---- records --------------------------------------------------------------------------------------------------

    def append(self, name: str, *records: dict[str, Any]) -> None:
        """Add lines to a file of records, all of them or none, and hand them to the system at once."""
        left = b"".join(json.dumps(record, allow_nan=False).encode() + b"\n" for record in records)
        with self._writing(name) as file:
            length = file.tell()
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                file.truncate(length)
                file.seek(length)
                raise

    def lengths(self) -> dict[str, int]:
        """The length of each file of records, in bytes, all of which are safe on the disk."""
        lengths = {}
        for name in RECORDS:
            with self._writing(name) as file:
                os.fsync(file.fileno())
                lengths[name] = file.tell()
        return lengths

    def cut(self, lengths: dict[str, int]) -> None:
        """Cut the files of records back to these lengths."""
        for name in RECORDS:
            with self._writing(name) as file:
                file.truncate(lengths.get(name, 0))
                file.seek(0, os.SEEK_END)

    def records(self, name: str) -> Iterator[dict[str, Any]]:
        """The records of a file; a last line that is still being written does not count."""
        path = self.path / name
        if not os.path.lexists(path):
            return
        try:
            with BufferedReader(open_regular(path)) as file:
                for number, line in enumerate(file, 1):
                    if not line.endswith(b"\n"):
                        return
                    record = _record(line, f"line {number} of {path}")
                    if name == "rounds.jsonl" and "flops" in record and "server_flops" not in record:
                        raise RunError(
                            f"{self.path} was made by an earlier version, which did not count the server's operations "
                            f"(no server_flops in line {number} of rounds.jsonl): run it again in a new folder."
                        )
                    yield record
        except OSError as error:
            raise RunError(f"cannot read {path}: {error.strerror or error}.") from error

    @contextmanager
    def _writing(self, name: str) -> Iterator[FileIO]:
        try:
            if name not in self._open:
                # Without a buffer: what could not be written is not tried again when the file is closed.
                self._open[name] = (self.path / name).open("ab", buffering=0)
            yield self._open[name]
        except OSError as error:
            raise RunError(f"cannot write {self.path / name}: {error.strerror or error}.") from error


def _record(line: bytes, where: str) -> dict[str, Any]:
    record = parse_json(line, where)
    if not isinstance(record, dict) or "round" not in record:
        raise RunError(f"{where} is damaged: it is no record of a round.")
    return record


def _umask() -> int:
    """The user's mask for new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


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
