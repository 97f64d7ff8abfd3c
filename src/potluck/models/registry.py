"""The networks that can be asked for by name, and which client gets which.

A new network is one file in this folder and one line in ``_BUILDERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from torch import nn

from potluck.errors import ModelError, nearest
from potluck.models.cnn import CNN

# What makes a network for inputs of a shape and a number of classes.
_Builder = Callable[[tuple[int, ...], int], nn.Module]

_BUILDERS: dict[str, _Builder] = {
    **{f"cnn-{number}": partial(CNN, number) for number in range(1, 6)},
}

_RANGE = re.compile(r"(?P<stem>.*?)(?P<first>\d+)\.\.(?P<last>\d+)")


def names() -> list[str]:
    """Names of all networks that :func:`build` knows.

    >>> names()
    ['cnn-1', 'cnn-2', 'cnn-3', 'cnn-4', 'cnn-5']
    """
    return sorted(_BUILDERS)


def build(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Make the network called ``name``, with PyTorch's own initial weights.

    Args:
        name: one of :func:`names`.
        shape: shape of one input, without the batch.
        classes: how many class scores it gives.

    >>> build("cnn-5", (1, 28, 28), 10).fc3
    Linear(in_features=500, out_features=10, bias=True)
    """
    return _BUILDERS[_known(name)](shape, classes)


def assignment(spec: str) -> list[str]:
    """List the names that ``spec`` stands for; client ``k`` takes entry ``k % len(list)``.

    A spec is a name, a range of numbered names, or several of these with commas between. A name may be repeated.

    >>> assignment("cnn-1..3, cnn-5")
    ['cnn-1', 'cnn-2', 'cnn-3', 'cnn-5']
    """
    return [name for part in spec.split(",") for name in _expand(part.strip(), spec)]


def _expand(part: str, spec: str) -> Iterator[str]:
    if not part:
        raise ModelError(f"models {spec!r}: a name is missing. Write for example 'cnn-1', 'cnn-1..5' or 'cnn-1,cnn-3'.")
    span = _RANGE.fullmatch(part)
    if span is None:
        yield _known(part)
        return
    first, last = int(span["first"]), int(span["last"])
    if first > last:
        raise ModelError(f"models {part!r}: a range goes upwards, as in '{span['stem']}{last}..{first}'.")
    for number in range(first, last + 1):
        yield _known(f"{span['stem']}{number}")


def _known(name: str) -> str:
    """The name as it is registered; the papers write "CNN-1", so upper case will do."""
    if name.lower() not in _BUILDERS:
        raise ModelError(nearest(name, _BUILDERS, "model"))
    return name.lower()
