"""Files that are either whole or not there."""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from potluck.errors import RunError

FORMAT = "potluck-tensors-1"
_CHUNK = 1 << 22


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace ``path`` at once: a reader, or a crash, sees the old content or the new, never a part.

    With ``durable`` this holds for a power cut as well, at the price of waiting for the disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise RunError(f"cannot write {path}: {error.strerror or error}.") from error


def write_json(path: Path, content: Any) -> None:
    """Write readable JSON."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> int:
    """Write tensors as safetensors; the checksum of the file."""
    data = safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()}, {"format": FORMAT})
    # Not durable: weights are large and many, and a checkpoint knows their checksums.
    write_bytes(path, data, durable=False)
    return zlib.crc32(data)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors written by :func:`write_tensors`."""
    try:
        return safetensors.torch.load(path.read_bytes())
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}.") from error
    except SafetensorError as error:
        raise RunError(f"{path} is damaged: {error}.") from error


def checksum(path: Path) -> int | None:
    """The CRC-32 of a file; ``None`` if it cannot be read."""
    value = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                value = zlib.crc32(chunk, value)
    except OSError:
        return None
    return value
