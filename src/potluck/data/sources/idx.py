"""The idx format of MNIST and its relatives, compressed with gzip.

Two zero bytes, a type (8: unsigned byte), the number of dimensions, each dimension as a big-endian 32-bit integer,
then the values in row-major order and nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from importlib.resources.abc import Traversable

import torch
from torch import Tensor

from potluck.data.sources import files
from potluck.errors import DataError

_UNSIGNED_BYTE = 8


def read(path: Traversable, dims: int, remedy: str, sha256: str | None = None) -> Tensor:
    """Read one ``.gz`` file of unsigned bytes.

    Args:
        path: The file.
        dims: How many dimensions it must have: 3 for images, 1 for labels.
        remedy: What to do where the file is missing or damaged: a sentence for the error message.
        sha256: The checksum of the uncompressed content, where it is known. (The compressed bytes are no good for
            that: the same data set circulates compressed by different programs.)

    Raises:
        DataError: The file is missing, truncated, altered, or something else.
    """
    try:
        content = gzip.decompress(files.read(path, remedy))
    except EOFError:
        raise DataError(f"the file {path} is truncated: its compressed data end too early. {remedy}.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"the file {path} is damaged, or was not made by gzip ({error}). {remedy}.") from error
    values = _parse(content, dims, f"the file {path}", remedy)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"the file {path} does not have the published content: it was altered. {remedy}.")
    return values


def _parse(content: bytes, dims: int, what: str, remedy: str) -> Tensor:
    header = 4 + 4 * dims
    if len(content) < header or content[:4] != bytes([0, 0, _UNSIGNED_BYTE, dims]):
        raise DataError(f"{what} is no idx file of unsigned bytes in {dims} dimension(s). {remedy}.")
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4)]
    if len(content) - header != math.prod(shape):
        raise DataError(
            f"{what} is damaged: it holds {len(content) - header:,} values, but its header says "
            f"{' x '.join(map(str, shape))}. {remedy}."
        )
    # A bytearray, because a tensor needs memory that may be written to.
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)[header:].clone().reshape(shape)
