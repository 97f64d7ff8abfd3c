"""Files that are either whole or not there, and that are read only where they are files.

A run's folder may come from someone else, or be copied by a program that makes links of files. Nothing in it is read
through a link, and a pipe or a device in place of a file is an error: it could be read for ever.
"""

from __future__ import annotations

import json
import math
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from potluck.errors import RunError

FORMAT = "potluck-tensors-1"
_CHUNK = 1 << 22
_DEEPEST = 16
"""Folders below each other that are looked into; a run makes two."""
_SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""Links are not followed, and a pipe does not wait for its other end; not every system has all of these."""


def open_regular(path: Path, mode: str = "rb") -> FileIO:
    """Open a regular file, without a buffer; ``RunError`` names whatever else is there.

    Args:
        path: The file. It may not be a link, a pipe, a device or a folder; folders on the way to it may be links.
        mode: ``"rb"`` to read what is there, or ``"ab"`` to write at its end, for which it is made if it is missing.
            Nothing is ever truncated.
    """
    writing = mode == "ab"
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if writing else os.O_RDONLY
    try:
        # Looked at before it is opened: opening a device can have effects of its own.
        if os.path.lexists(path):
            _refuse_others(path, path.lstat().st_mode)
        number = os.open(path, flags | _SAFE, 0o666)
        try:
            _refuse_others(path, os.fstat(number).st_mode)
            return FileIO(number, "ab+" if writing else "rb")
        except BaseException:
            os.close(number)
            raise
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise RunError(f"cannot {'write' if writing else 'read'} {path}: {reason(error)}.") from error


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """The content of a regular file; ``RunError`` if it is longer than ``limit`` bytes."""
    with open_regular(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if limit is not None and size > limit:
                raise RunError(f"{path} is damaged: it has {size:,} bytes, and may have {limit:,}.")
            return file.read()
        except OSError as error:
            raise RunError(f"cannot read {path}: {reason(error)}.") from error


def read_text(path: Path, limit: int | None = None) -> str:
    """The content of a regular file of UTF-8 text."""
    try:
        return read_bytes(path, limit).decode()
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged: it is no UTF-8 text.") from error


def read_json(path: Path, limit: int | None = None) -> Any:
    """The JSON in a regular file; NaN, infinity and what is too large for a float are refused too."""
    return parse_json(read_text(path, limit), str(path))


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse JSON; ``RunError`` says that ``where`` is damaged if it is none."""
    try:
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except RecursionError as error:
        raise RunError(f"{where} is damaged: it is nested too deeply.") from error
    except ValueError as error:
        raise RunError(f"{where} is damaged: {error}.") from error


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is not a finite number")


def _refuse_others(path: Path, mode: int) -> None:
    """Raise unless this is the mode of a regular file."""
    if not stat.S_ISREG(mode):
        raise RunError(f"{path} is {_kind(mode)}, and has to be a regular file: put the file back.")


def make_folder(path: Path) -> None:
    """Make a folder inside one that exists; ``RunError`` if there is anything but a real folder."""
    try:
        path.mkdir(exist_ok=True)
        mode = path.lstat().st_mode
    except FileExistsError:
        mode = path.lstat().st_mode
    except OSError as error:
        raise RunError(f"cannot make the folder {path}: {reason(error)}.") from error
    if not stat.S_ISDIR(mode):
        raise RunError(f"{path} is {_kind(mode)}, and has to be a folder: remove it.")


def refuse_links(folder: Path) -> None:
    """Raise if ``folder`` is there and is no real folder, or if it holds more than real folders and regular files."""
    for path, mode in walk(folder):
        if path == folder and not stat.S_ISDIR(mode):
            raise RunError(f"{path} is {_kind(mode)}, and has to be a folder: remove it.")
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise RunError(f"{path} is {_kind(mode)}: only files and folders may be there. Remove it.")
        if len(path.parts) - len(folder.parts) > _DEEPEST:
            raise RunError(f"{folder} has folders below each other, more than {_DEEPEST} of them: remove them.")


def walk(folder: Path) -> Iterator[tuple[Path, int]]:
    """A folder and all below it, each with its mode; links are named and not followed. Nothing if it is missing."""
    left = [folder]  # and no recursion: folders can be nested more deeply than calls
    while left:
        path = left.pop()
        try:
            mode = path.lstat().st_mode
            names = os.listdir(path) if stat.S_ISDIR(mode) else []  # noqa: PTH208 (names alone, and all at once)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise RunError(f"cannot look into {path}: {reason(error)}.") from error
        yield path, mode
        left += [path / name for name in sorted(names, reverse=True)]


def is_there(file: FileIO, path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except OSError:
        return False


def size_of(path: Path) -> int | None:
    """The size of a regular file; ``None`` if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")


def reason(error: Exception) -> str:
    """Why the system refused, in its own words and without the path."""
    return getattr(error, "strerror", None) or str(error)


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace ``path`` at once: a reader, or a crash, sees the old content or the new, never a part.

    With ``durable`` this holds for a power cut as well, at the price of waiting for the disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _new(temporary) as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise RunError(f"cannot write {path}: {reason(error)}.") from error


def _new(path: Path) -> BinaryIO:
    """A new file; one that a killed process left, or a link, is not written to but replaced."""
    try:
        return path.open("xb")
    except FileExistsError:
        path.unlink()
        return path.open("xb")


def write_json(path: Path, content: Any) -> None:
    """Write readable JSON."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> tuple[int, int]:
    """Write tensors as safetensors; the checksum of the file, and its size."""
    data = safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()}, {"format": FORMAT})
    # Not durable: weights are large and many, and a checkpoint knows their checksums.
    write_bytes(path, data, durable=False)
    return zlib.crc32(data), len(data)


def read_tensors(path: Path, crc: int | None = None) -> dict[str, Tensor]:
    """Read tensors written by :func:`write_tensors`; ``RunError`` if they have not the checksum ``crc``."""
    data = read_bytes(path)
    if crc is not None and zlib.crc32(data) != crc:
        raise RunError(f"{path} is damaged: it is not as it was written.")
    try:
        return safetensors.torch.load(data)
    # What a header says can also be of no type or shape that PyTorch has.
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise RunError(f"{path} is damaged: {error}.") from error


def checksum(path: Path) -> int | None:
    """The CRC-32 of a regular file; ``None`` if it cannot be read."""
    try:
        return checksum_to(path, None)
    except RunError:
        return None


def checksum_to(path: Path, length: int | None) -> int | None:
    """The CRC-32 of the first ``length`` bytes of a regular file, or of all; ``None`` if it is shorter."""
    value, left = 0, length
    with open_regular(path) as file:
        try:
            while chunk := file.read(_CHUNK if left is None else min(left, _CHUNK)):
                value = zlib.crc32(chunk, value)
                left = None if left is None else left - len(chunk)
        except OSError as error:
            raise RunError(f"cannot read {path}: {reason(error)}.") from error
    return None if left else value
