"""The files of records of a run: lines that are only added, and what was added is known by its checksum."""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from potluck.errors import RunError
from potluck.run.contents import check_clients, check_rounds
from potluck.run.files import checksum_to, is_there, open_regular, parse_json, read_bytes, reason, write_bytes

Check = Callable[[Iterable[Any], str], Iterator[dict[str, Any]]]
CHECKS: dict[str, Check] = {"rounds.jsonl": check_rounds, "clients.jsonl": check_clients}
"""The files of records, and what their lines are held to."""
RECORDS = tuple(CHECKS)
_LONGEST = 1 << 28
"""Bytes that a line may have."""


class Mark(NamedTuple):
    """How far a file of records went: its length in bytes, and the CRC-32 of them."""

    length: int = 0
    crc: int = 0


class Lines:
    """The files of records of one run, to be added to.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, FileIO] = {}
        self._marks = dict.fromkeys(RECORDS, Mark())

    def append(self, name: str, *records: dict[str, Any]) -> None:
        """Add lines to a file of records, all of them or none, and hand them to the system at once."""
        data = b"".join(json.dumps(record, allow_nan=False).encode() + b"\n" for record in records)
        with self._writing(name) as file:
            before, left = self._marks[name], data
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                file.truncate(before.length)
                raise
            self._marks[name] = Mark(before.length + len(data), zlib.crc32(data, before.crc))

    def marks(self) -> dict[str, Mark]:
        """How far each file goes, all of which is safe on the disk."""
        for name in RECORDS:
            with self._writing(name) as file:
                os.fsync(file.fileno())
        return dict(self._marks)

    def cut(self, marks: Mapping[str, Mark]) -> None:
        """Cut the files back to where they were; what is kept has to be known to be right."""
        for name in RECORDS:
            self._marks[name] = marks.get(name, Mark())
            _part_from_others(self._folder / name)
            with self._writing(name, longer=True) as file:
                file.truncate(self._marks[name].length)

    def changed(self, *, whole: bool = False) -> str | None:
        """What others did to the files since they were opened; ``whole`` compares all that they hold."""
        for name, file in self._open.items():
            path, mark = self._folder / name, self._marks[name]
            if not is_there(file, path):
                return f"{path} was deleted or replaced"
            if (size := os.fstat(file.fileno()).st_size) != mark.length:
                return f"{path} was changed (it has {size:,} bytes, and {mark.length:,} were written)"
            if whole and checksum_to(path, mark.length) != mark.crc:
                return f"{path} was changed (it holds something else than was written)"
        return None

    def close(self) -> None:
        """Close the files; they may be added to again."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    @contextmanager
    def _writing(self, name: str, *, longer: bool = False) -> Iterator[FileIO]:
        """A file of records, which begins as was left; only where it is to be cut it may be ``longer``."""
        path = self._folder / name
        if name not in self._open:
            # Without a buffer: what could not be written is not tried again when the file is closed.
            file = open_regular(path, "ab")
            mark = self._marks[name]
            right = longer or os.fstat(file.fileno()).st_size == mark.length
            if not right or checksum_to(path, mark.length) != mark.crc:
                file.close()
                raise RunError(f"{path} is not as this run left it: put it back, or start a new run.")
            self._open[name] = file
        try:
            yield self._open[name]
        except OSError as error:
            raise RunError(f"cannot write {path}: {reason(error)}.") from error


def _part_from_others(path: Path) -> None:
    """Give a file that has another name too, as in a copy by hard links, a content of its own."""
    if os.path.lexists(path) and path.lstat().st_nlink > 1:
        write_bytes(path, read_bytes(path))


def read_lines(path: Path, upto: int | None = None) -> Iterator[dict[str, Any]]:
    """The records of a file; a last line that is still being written does not count.

    Args:
        path: The file; without it there are no records.
        upto: How many bytes of it to read; all without.
    """
    if not os.path.lexists(path):
        return
    with open_regular(path) as raw, io.BufferedReader(raw) as file:
        yield from CHECKS[path.name](_parsed(file, path, upto), str(path))


def _parsed(file: io.BufferedReader[FileIO], path: Path, upto: int | None) -> Iterator[Any]:
    number, done = 0, 0
    while upto is None or done < upto:
        number += 1
        try:
            line = file.readline(_LONGEST)
        except OSError as error:
            raise RunError(f"cannot read {path}: {reason(error)}.") from error
        if not line.endswith(b"\n"):
            if len(line) == _LONGEST:
                raise RunError(f"line {number} of {path} is damaged: it has more than {_LONGEST:,} bytes.")
            return
        done += len(line)
        yield parse_json(line, f"line {number} of {path}")
