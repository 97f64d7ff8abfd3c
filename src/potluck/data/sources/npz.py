"""Images of your own in one NumPy file: arrays ``x`` and ``y``, or ``x_train``, ``y_train``, ``x_test``, ``y_test``.

Labels are the numbers of classes, from 0 and without gaps, or their names as text.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path

import numpy as np
import torch

from potluck.data.sources import files
from potluck.data.sources.base import Source
from potluck.errors import DataError

_WHOLE = ("x", "y")
_SPLIT = ("x_train", "y_train", "x_test", "y_test")
_CHANNELS = (1, 3)
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_HEADER = 1 << 14
"""No header is longer: NumPy refuses any of more than 10,000 characters."""
_BOMB_FROM, _BOMB_RATIO = 64 << 20, 200
"""An array of more than so many bytes that was compressed to less than such a part is not made of images."""


def load(path: Path) -> Source:
    """Read the file; images are bytes of shape [n, height, width], with 1 or 3 channels before or after these."""
    arrays = _read(path)
    parts = [_images(arrays[_SPLIT[at]], _SPLIT[at], path) for at in (0, 2)] if "x_train" in arrays else []
    x = _joined(parts, path) if parts else _images(arrays["x"], "x", path)
    names = ("y_train", "y_test") if parts else ("y",)
    labels = [_labels(arrays[name], name, path) for name in names]
    for name, images, given in zip(names, parts or [x], labels, strict=True):
        if len(images) != len(given):
            raise DataError(
                f"{path} holds {len(images)} images and {len(given)} labels in {name}: give one label per image."
            )
    y, class_names = _classes(labels, path)
    return Source(
        name=path.stem,
        x=torch.from_numpy(np.require(x, requirements=["C", "W"])),
        y=torch.from_numpy(y),
        class_names=class_names,
        mean=(0.5,) * x.shape[1],
        std=(0.5,) * x.shape[1],
        test_from=len(parts[0]) if parts else None,
        default_split="official" if parts else "8:1:1",
    )


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise DataError(f"{path} is a pipe or a device, which could be read for ever: give a file.")
        with zipfile.ZipFile(path) as archive:
            held = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            names = next((wanted for wanted in (_SPLIT, _WHOLE) if set(wanted) <= held.keys()), None)
            if names is None:
                raise DataError(
                    f"{path} holds {', '.join(sorted(held)) or 'nothing'}: it needs arrays x and y, or x_train, "
                    "y_train, x_test and y_test."
                )
            return {name: _array(archive, held[name], path) for name in names}
    except FileNotFoundError:
        raise DataError(f"there is no file {path}.") from None
    except DataError:
        raise
    except Exception as error:  # a damaged file can raise any kind
        reason = getattr(error, "strerror", None) or str(error).rstrip(".") or type(error).__name__
        reason = "it is truncated" if isinstance(error, EOFError) else reason
        raise DataError(f"{path} cannot be read as a NumPy .npz file: {reason}.") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> np.ndarray:
    if member.file_size > _BOMB_FROM and member.file_size > _BOMB_RATIO * member.compress_size:
        raise DataError(
            f"{path} unpacks {member.compress_size:,} bytes of {member.filename} to {member.file_size:,}: these are no "
            "images, so it is not unpacked."
        )
    content = files.unzip(archive, member)
    header = io.BytesIO(content[:_HEADER])
    version = np.lib.format.read_magic(header)
    if version not in _HEADERS:
        raise DataError(f"{member.filename} in {path} is in an unknown version of NumPy's format: {version}.")
    shape, by_columns, kind = _HEADERS[version](header)
    if kind.hasobject:
        raise DataError(f"{member.filename} in {path} holds Python objects, not numbers: they are not read.")
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(content) - header.tell():
        raise DataError(f"{member.filename} in {path} is damaged: its values do not fit its shape {shape}.")
    values = np.frombuffer(content, dtype=kind, offset=header.tell())
    return values.reshape(shape[::-1]).T if by_columns else values.reshape(shape)


def _images(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    """Images as [n, channels, height, width]."""
    if values.dtype != np.uint8 or values.ndim not in (3, 4) or 0 in values.shape:
        raise DataError(
            f"{name} in {path} is {values.dtype} of shape {values.shape}: images are uint8 of shape [n, height, "
            "width], [n, channels, height, width] or [n, height, width, channels]."
        )
    if values.ndim == 3:
        return values[:, None]
    first, last = values.shape[1] in _CHANNELS, values.shape[3] in _CHANNELS
    if first == last:
        raise DataError(
            f"{name} in {path} has the shape {values.shape}: one of its second and its last dimension, and one alone, "
            "must be 1 or 3, the channels."
        )
    return values if first else values.transpose(0, 3, 1, 2)


def _joined(parts: list[np.ndarray], path: Path) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    if parts[0].shape[1:] != parts[1].shape[1:]:
        raise DataError(
            f"{path} has training images of shape {parts[0].shape[1:]} and test images of {parts[1].shape[1:]}: "
            "they must agree."
        )
    return np.concatenate(parts)


def _labels(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iuU" or not len(values):
        raise DataError(
            f"{name} in {path} is {values.dtype} of shape {values.shape}: labels are whole numbers or text, one per "
            "image."
        )
    return values


def _classes(labels: list[np.ndarray], path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """The class of every image, and what the classes are called; there are those that can be learned from."""
    if len({part.dtype.kind == "U" for part in labels}) > 1:
        raise DataError(f"{path} has labels of numbers and labels of text: give one kind.")
    known = np.unique(labels[0])
    unknown = np.setdiff1d(labels[-1], known)
    if len(unknown):
        raise DataError(f"y_test in {path} has the label {unknown[0]}, which y_train does not have.")
    if len(known) < 2:
        raise DataError(f"{path} has images of one class, {known[0]}: two or more are needed.")
    if known.dtype.kind != "U" and (known[0] != 0 or known[-1] != len(known) - 1):
        raise DataError(
            f"{path} has {len(known)} classes with labels from {known[0]} to {known[-1]}: number classes from 0 "
            "without gaps, as numpy.unique(y, return_inverse=True)[1] does, or give their names as text."
        )
    return np.searchsorted(known, np.concatenate(labels)).astype(np.int64), tuple(map(str, known.tolist()))
