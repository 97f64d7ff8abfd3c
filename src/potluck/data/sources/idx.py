"""The idx format of MNIST and its relatives.

Two zero bytes, a type (8: unsigned byte), the number of dimensions, each dimension as a big-endian 32-bit integer,
then the values in row-major order and nothing else.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from potluck.data.sources.files import Found
from potluck.errors import DataError

_UNSIGNED_BYTE = 8
_SHAPE = (28, 28)


def parse(content: bytes, dims: int, what: str, remedy: str) -> Tensor:
    """The values of a file of unsigned bytes.

    Args:
        content: The file's content, not compressed.
        dims: How many dimensions it must have: 3 for images, 1 for labels.
        what: How to call the file in a message.
        remedy: What to do where the file is damaged: a sentence for the error message.

    Raises:
        DataError: The content is something else, or contradicts itself.

    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), 1, "the file", "Fetch it").tolist()
    [7, 9]
    """
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


def read_parts(found: Found, train: str, test: str) -> tuple[Tensor, Tensor, int]:
    """Images [n, 1, height, width] and labels [n] of a data set in idx files, and where its test set begins.

    Args:
        found: Where the files are.
        train: How the names of the training set's files begin.
        test: How the names of the test set's files begin.
    """
    contents = {name: (what, content) for name, what, content in found.contents()}

    def values(part: str, kind: str, dims: int) -> Tensor:
        what, content = contents[part + kind]
        return parse(content, dims, what, f"{found.form.remedy} again")

    images = [values(part, "-images-idx3-ubyte.gz", 3) for part in (train, test)]
    labels = [values(part, "-labels-idx1-ubyte.gz", 1) for part in (train, test)]
    for part, x, y in zip((train, test), images, labels, strict=True):
        if len(x) != len(y) or x.shape[1:] != _SHAPE:
            raise DataError(
                f"the files {part}-* in {found.path} hold {len(x)} images of {x.shape[1]}x{x.shape[2]} pixels and "
                f"{len(y)} labels: there should be as many of both, and 28x28 pixels. {found.form.remedy} again."
            )
    return torch.cat(images).unsqueeze(1), torch.cat(labels).to(torch.int64), len(labels[0])
