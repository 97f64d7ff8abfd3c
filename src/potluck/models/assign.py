"""Which client gets which network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

import torch

from potluck import draws
from potluck.errors import ModelError
from potluck.models.registry import known, names

Assignment = Literal["by-id", "random"]
"""How clients come to their networks: in turn, or by chance."""

T = TypeVar("T")

_RANGE = re.compile(r"(?P<stem>.*?)(?P<first>[0-9]{1,18})\.\.(?P<last>[0-9]{1,18})")


def assignment(spec: str) -> list[str]:
    """List the names that ``spec`` stands for.

    A spec is a name, a range of numbered names, or several of these with commas between. A name may be repeated.

    >>> assignment("cnn-1..3, resnet-18@500")
    ['cnn-1', 'cnn-2', 'cnn-3', 'resnet-18@500']
    """
    return [name for part in spec.split(",") for name in _expand(part.strip(), spec)]


def assign(choices: Sequence[T], clients: int, how: Assignment, key: int) -> list[T]:
    """Give each client one of ``choices``.

    Args:
        choices: For example the names from :func:`assignment`; with one name, all clients get the same.
        clients: How many clients there are.
        how: ``by-id`` gives client ``k`` choice ``k`` modulo their number, as the papers' code does; ``random`` gives
            it any, each with the same chance.
        key: Of the draw; a client's draw does not depend on how many others there are.

    >>> assign("abc", 7, "by-id", key=0), assign("abc", 7, "random", key=0)
    (['a', 'b', 'c', 'a', 'b', 'c', 'a'], ['b', 'a', 'c', 'a', 'a', 'a', 'b'])
    """
    if how == "by-id":
        return [choices[client % len(choices)] for client in range(clients)]
    chances = draws.uniform(draws.spread(key, torch.arange(clients))).tolist()
    return [choices[int(chance * len(choices))] for chance in chances]


def _expand(part: str, spec: str) -> Iterator[str]:
    if not part:
        raise ModelError(f"models {spec!r}: a name is missing. Write for example 'cnn-1', 'cnn-1..5' or 'cnn-1,cnn-3'.")
    span = _RANGE.fullmatch(part)
    if span is None:
        yield known(part)
        return
    first, last = int(span["first"]), int(span["last"])
    if first > last:
        raise ModelError(f"models {part!r}: a range goes upwards, as in '{span['stem']}{last}..{first}'.")
    for number in range(first, last + 1):
        name = known(f"{span['stem']}{number}")
        if name not in names():
            raise ModelError(f"models {part!r}: the numbers are widths, which have no range. Write them one by one.")
        yield name
