"""Data sets by name: one file each, reading the format in which the data set was published.

To add one, write a file with a function ``load(data_dir) -> Source`` and name it below.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from potluck.data.sources import cifar10, fashion_mnist_10k
from potluck.data.sources.base import Source
from potluck.errors import DataError, nearest

__all__ = ["Source", "load", "names"]

_SOURCES: dict[str, Callable[[str | Path | None], Source]] = {
    "cifar-10": cifar10.load,
    "fashion-mnist-10k": fashion_mnist_10k.load,
}


def names() -> list[str]:
    """The data sets that can be loaded.

    >>> names()
    ['cifar-10', 'fashion-mnist-10k']
    """
    return sorted(_SOURCES)


def load(name: str, data_dir: str | Path | None = None) -> Source:
    """Load the data set ``name``, looking first in ``data_dir`` for its files.

    >>> load("fashion-mnist-10k").shape
    (1, 28, 28)
    """
    if name not in _SOURCES:
        raise DataError(nearest(name, _SOURCES, "data set"))
    return _SOURCES[name](data_dir)
