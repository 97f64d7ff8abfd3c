"""Data sets by name: one file each, reading the format in which the data set was published.

To add one, write a file with a function ``load(data_dir) -> Source`` and name it below.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from potluck.data.sources import (
    cifar10,
    cifar100,
    emnist_letters,
    fashion_mnist,
    fashion_mnist_10k,
    image_folder,
    mnist,
    npz,
)
from potluck.data.sources.base import Source
from potluck.data.sources.published import Published
from potluck.errors import DataError, nearest

__all__ = ["Source", "absolute", "load", "names", "published"]

_SOURCES: dict[str, Callable[[str | Path | None], Source]] = {
    "cifar-10": cifar10.load,
    "cifar-100": cifar100.load,
    "emnist-letters": emnist_letters.load,
    "fashion-mnist": fashion_mnist.load,
    "fashion-mnist-10k": fashion_mnist_10k.load,
    "mnist": mnist.load,
}
_PUBLISHED = {
    "cifar-10": cifar10.PUBLISHED,
    "cifar-100": cifar100.PUBLISHED,
    "emnist-letters": emnist_letters.PUBLISHED,
    "fashion-mnist": fashion_mnist.PUBLISHED,
    "mnist": mnist.PUBLISHED,
}


def names() -> list[str]:
    """The data sets that can be loaded by name.

    >>> names()
    ['cifar-10', 'cifar-100', 'emnist-letters', 'fashion-mnist', 'fashion-mnist-10k', 'mnist']
    """
    return sorted(_SOURCES)


def published(name: str) -> Published | None:
    """What the data set ``name`` was published as; None for the one that Potluck carries."""
    if name not in _SOURCES:
        raise DataError(nearest(name, _SOURCES, "data set"))
    return _PUBLISHED.get(name)


def load(name: str, data_dir: str | Path | None = None) -> Source:
    """Load a data set.

    Args:
        name: One of :func:`names`; or the path, with a slash in it, of a folder that holds one folder of images per
            class; or the path of an ``.npz`` file.
        data_dir: Where to look first for the files of a data set with a name.

    >>> load("fashion-mnist-10k").shape
    (1, 28, 28)
    """
    if name in _SOURCES:
        return _SOURCES[name](data_dir)
    if is_path(name):
        path = Path(absolute(name))
        return npz.load(path) if path.suffix == ".npz" else image_folder.load(path)
    hint = f" To read the folder {name}, write ./{name}." if os.path.isdir(name) else ""  # noqa: PTH112 - must not raise
    raise DataError(nearest(name, _SOURCES, "data set") + hint)


def is_path(name: str) -> bool:
    """Whether this is the path of data of one's own, not the name of a data set."""
    return name not in _SOURCES and ("/" in name or os.sep in name or name.endswith(".npz"))


def absolute(name: str) -> str:
    """A path that means the same in every folder; the name of a data set as it is.

    >>> absolute("mnist")
    'mnist'
    """
    return os.path.abspath(os.path.expanduser(name)) if is_path(name) else name  # noqa: PTH100, PTH111 - must not raise
