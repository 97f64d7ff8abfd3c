"""The files of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), in their binary and in their Python version.

A binary file is records: a byte or two of labels, then 32x32 bytes each of red, green and blue. A Python file is a
pickled dictionary with the same bytes as an array, and the labels as a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from potluck.data.sources.files import Found
from potluck.data.sources.locate import locate
from potluck.data.sources.pickles import unpickle
from potluck.data.sources.published import Form
from potluck.errors import DataError

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32

# Takes a file's content, how to call it, and what to do where it is damaged; gives its images and labels.
Reader = Callable[[bytes, str, str], tuple[np.ndarray, np.ndarray]]


def binary(label_bytes: int) -> Reader:
    """A reader of binary files, the last of whose ``label_bytes`` bytes per record is the class."""

    def read(content: bytes, what: str, remedy: str) -> tuple[np.ndarray, np.ndarray]:
        record = label_bytes + _PIXELS
        if len(content) % record:
            raise DataError(f"{what} has {len(content):,} bytes, no multiple of {record:,}. {remedy}.")
        records = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
        return records[:, label_bytes:], records[:, label_bytes - 1]

    return read


def python(labels: bytes) -> Reader:
    """A reader of Python files, whose classes are under the key ``labels``."""

    def read(content: bytes, what: str, remedy: str) -> tuple[np.ndarray, np.ndarray]:
        held = unpickle(content, what, remedy)
        x = held.get(b"data") if isinstance(held, dict) else None
        y = held.get(labels) if isinstance(held, dict) else None
        if not isinstance(x, np.ndarray) or x.ndim != 2 or x.shape[1] != _PIXELS:
            raise DataError(f"{what} holds no images of {_PIXELS:,} bytes under 'data'. {remedy}.")
        if not isinstance(y, list) or len(y) != len(x) or not all(isinstance(label, int) for label in y):
            raise DataError(f"{what} holds no list of {len(x)} numbers under {labels.decode()!r}. {remedy}.")
        if not all(0 <= label < 256 for label in y):
            raise DataError(f"{what} holds labels that are no classes. {remedy}.")
        return x, np.array(y, dtype=np.uint8)

    return read


def read(
    name: str, forms: Sequence[tuple[Form, Reader]], classes: int, data_dir: str | Path | None
) -> tuple[Tensor, Tensor]:
    """All images, as uint8 [n, 3, 32, 32], and their classes, in the order of the form's files."""
    found = locate(name, [form for form, _ in forms], data_dir)
    reader = next(reader for form, reader in forms if form is found.form)
    parts = {file: _part(found, reader, classes, what, content) for file, what, content in found.contents()}
    ordered = [parts[file] for file in found.form.files]
    y = np.concatenate([labels for _, labels in ordered]).astype(np.int64)
    # Copied once, from the files' own memory.
    x = np.empty((len(y), *_SHAPE), dtype=np.uint8)
    start = 0
    for images, labels in ordered:
        x[start : start + len(labels)] = images.reshape(-1, *_SHAPE)
        start += len(labels)
    return torch.from_numpy(x), torch.from_numpy(y)


def _part(found: Found, reader: Reader, classes: int, what: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    remedy = f"{found.form.remedy} again"
    images, labels = reader(content, what, remedy)
    if len(labels) and labels.max() >= classes:
        raise DataError(f"{what} has label {labels.max()}, and there are {classes} classes, from 0. {remedy}.")
    return images, labels
