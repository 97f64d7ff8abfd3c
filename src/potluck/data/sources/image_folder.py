"""A folder of images of your own, with one folder per class.

It may hold a folder ``train`` and a folder ``test`` with the same classes; then these are the official split.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from potluck.data.sources.base import Source
from potluck.errors import DataError

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
_GREY, _COLOUR = ("1", "L"), ("P", "PA", "LA", "RGB", "RGBA", "CMYK", "YCbCr")
_LEFT_BY_OTHERS = ("Thumbs.db", "desktop.ini")
_PIXELS = 1 << 24
"""No image is unpacked that has more pixels, whatever the size of its file."""


def load(path: Path) -> Source:
    """Read all images; their sizes must agree, and they are in colour where one of them is."""
    folders = _folders(path)
    split = [folder.name for folder in folders] == ["test", "train"]
    parts = [_class_files(path / part) for part in ("train", "test")] if split else [_class_files(path)]
    classes = sorted(parts[0])
    if len(classes) < 2:
        raise DataError(
            f"{path} has {len(classes)} class folder(s): put the images of each of two or more classes into a folder "
            "of its own."
        )
    unknown = sorted({name for part in parts for name in part} - set(classes))
    if unknown:
        raise DataError(f"{path / 'test' / unknown[0]} is a class that {path / 'train'} does not have.")
    files = [(file, label) for part in parts for label, name in enumerate(classes) for file in part.get(name, ())]
    x = _read([file for file, _ in files])
    return Source(
        name=path.name or str(path),
        x=torch.from_numpy(x),
        y=torch.tensor([label for _, label in files]),
        class_names=tuple(classes),
        mean=(0.5,) * x.shape[1],
        std=(0.5,) * x.shape[1],
        test_from=sum(map(len, parts[0].values())) if split else None,
        default_split="official" if split else "8:1:1",
    )


def _folders(path: Path) -> list[Path]:
    """The folders in a folder, by name; hidden ones are passed over."""
    try:
        with os.scandir(path) as entries:
            return sorted(path / entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except FileNotFoundError:
        raise DataError(f"there is no folder {path}.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot open the folder {path}: {getattr(error, 'strerror', None) or error}.") from error


def _class_files(path: Path) -> dict[str, list[Path]]:
    """The files of each class."""
    classes = {}
    for folder in _folders(path):
        inner = _folders(folder)
        if inner:
            raise DataError(f"{inner[0]} is a folder where an image should be: a class is one folder of images.")
        files = sorted(file for file in folder.iterdir() if file.name[0] != "." and file.name not in _LEFT_BY_OTHERS)
        if not files:
            raise DataError(f"the class folder {folder} holds no image: fill it, or remove it.")
        classes[folder.name] = files
    return classes


def _read(files: list[Path]) -> np.ndarray:
    """All images as uint8 [n, channels, height, width]."""
    first = _image(files[0])
    x = _room(len(files), first)
    for index, file in enumerate(files):
        image = _image(file)  # no more than one is held: there may be many, and large ones
        if image.size != first.size:
            raise DataError(
                f"{file} is an image of {image.width}x{image.height} pixels, {files[0]} one of "
                f"{first.width}x{first.height}: bring all to one size."
            )
        colour = image.mode == "RGB"
        if colour and x.shape[1] == 1:  # those in grey before it get three equal channels
            x = x.repeat(3, axis=1)
        x[index] = np.asarray(image).transpose(2, 0, 1) if colour else np.asarray(image)
    return x


def _room(count: int, image: Image.Image) -> np.ndarray:
    """Memory for so many images like this one."""
    try:
        return np.empty((count, len(image.getbands()), image.height, image.width), dtype=np.uint8)
    except MemoryError:
        raise DataError(
            f"{count:,} images of {image.width}x{image.height} pixels do not fit into memory: make them smaller."
        ) from None


def _image(file: Path) -> Image.Image:
    """One image, in grey or in colour, with eight bits per channel."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as image:
                if image.width * image.height > _PIXELS:
                    raise DataError(
                        f"{file} claims to be an image of {image.width}x{image.height} pixels, more than any data set "
                        "here has: it is not unpacked."
                    )
                if image.mode not in _GREY + _COLOUR:
                    raise DataError(f"{file} is an image of kind {image.mode!r}: save it with 8 bits per channel.")
                return image.convert("L" if image.mode in _GREY else "RGB")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{file} claims to be an image of more pixels than any data set here has: {error}") from error
    except UnidentifiedImageError:
        raise DataError(f"{file} is no image ({', '.join(_FORMATS)}): remove it from the class folder.") from None
    except DataError:
        raise
    except Exception as error:  # a damaged image can raise any kind
        raise DataError(f"{file} is a damaged image ({str(error).rstrip('.')}): mend or remove it.") from error
