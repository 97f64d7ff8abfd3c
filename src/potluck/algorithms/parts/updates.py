"""Numbered updates of a shared model: what the server keeps of them, and what a client makes of them.

The n-th update is the tensors ``update:n:NAME``, in the server's state as on the wire; it may be in low-rank parts.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from potluck.algorithms.parts.low_rank import paired, restored
from potluck.errors import PayloadError
from potluck.payload import Payload

_PREFIX = "update:"
_DIGITS = 18
"""Numbers of updates are shorter than this, and fit into an int64."""


def numbered(update: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    """An update under the names that tell its number.

    >>> import torch
    >>> list(numbered({"w": torch.ones(2)}, 7)), list(updates_in(numbered({"w": torch.ones(2)}, 7)))
    (['update:7:w'], [7])
    """
    return {f"{_PREFIX}{number}:{name}": tensor for name, tensor in update.items()}


def updates_in(tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """All updates among some tensors, by number."""
    found: dict[int, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        number, colon, name = path.removeprefix(_PREFIX).partition(":")
        if path.startswith(_PREFIX) and colon:
            if not (number.isascii() and number.isdecimal() and len(number) < _DIGITS):
                raise PayloadError(f"{path!r} names no number of an update.")
            found.setdefault(int(number), {})[name] = tensor
    return found


def whole(update: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """An update of a model, multiplied out; a PayloadError if it is none of this model."""
    found = restored(update, model)
    Payload(found).require(model)
    return found


def check_update(update: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> None:
    """Refuse what is no update of a model by names, shapes and types, without multiplying it out."""
    found = {}
    for name, part in paired(update, model):
        # A product has the type of its parts, and the shape of the weights for which they were found to fit.
        found[name] = part if isinstance(part, Tensor) else model[name].to(part[0].dtype)
    Payload(found).require(model)


def updated(model: Mapping[str, Tensor], change: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model plus an update that is multiplied out."""
    return {name: tensor + change[name] for name, tensor in model.items()}


def newest(updates: Mapping[int, Mapping[str, Tensor]], model: Mapping[str, Tensor]) -> dict[int, Mapping[str, Tensor]]:
    """As many of the last updates as are, all together, shorter than the model."""
    length, most, kept = 0, _length(model), {}
    for number in sorted(updates, reverse=True):
        length += _length(updates[number])
        if length >= most:
            break
        kept[number] = updates[number]
    return kept


def _length(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())
