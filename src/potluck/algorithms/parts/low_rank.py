"""Weights as products of two thin matrices, where that is shorter: FedKD's way over the wire."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from potluck.errors import PayloadError
from potluck.metrics.server import ServerCounter, active_counter

LEFT, RIGHT = ":left", ":right"


def shortened(tensors: Mapping[str, Tensor], energy: float) -> dict[str, Tensor]:
    """Each tensor of two or more dimensions as ``name:left`` [rows, rank] and ``name:right`` [rank, ...].

    The rank is the smallest, at least 1, whose singular values hold the share ``energy`` of the sum of all squares.
    Where both parts together would not be shorter than the tensor, and for vectors, it stays as it is.
    """
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        parts = _parts(tensor, energy) if tensor.ndim > 1 else None
        result |= {name: tensor} if parts is None else {name + LEFT: parts[0], name + RIGHT: parts[1]}
    return result


class Shortener:
    """:func:`shortened` for a server that sends the same to many clients: the last result is kept.

    It is not kept from before the server's operations began to be counted, for then they would count as nothing.
    """

    def __init__(self) -> None:
        self._counted_by: ServerCounter | None = None
        self._asked: tuple[dict[str, Tensor], float] | None = None
        self._answer: dict[str, Tensor] = {}

    def __call__(self, tensors: Mapping[str, Tensor], energy: float) -> dict[str, Tensor]:
        """As :func:`shortened`."""
        counter = active_counter()
        uncounted = counter is not None and counter is not self._counted_by
        if uncounted or self._asked is None or self._asked[1] != energy or not _same(self._asked[0], tensors):
            self._counted_by = counter
            self._asked, self._answer = (dict(tensors), energy), shortened(tensors, energy)
        return self._answer


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether these are the very same tensors; a server's state is replaced, never changed in place."""
    return one.keys() == other.keys() and all(tensor is other[name] for name, tensor in one.items())


def _parts(tensor: Tensor, energy: float) -> tuple[Tensor, Tensor] | None:
    matrix = tensor.flatten(1)
    if not bool(torch.isfinite(matrix).all()):
        return None  # it has no singular values; whoever gets it refuses it
    tall = matrix.shape[0] > matrix.shape[1]
    # Singular vectors as eigenvectors of the smaller square, which is several times as fast as an SVD. Its eigenvalues
    # are squares of singular values: hence the higher precision.
    small = matrix.T.double() if tall else matrix.double()
    values, vectors = torch.linalg.eigh(small @ small.T)  # ascending
    held = values.clamp(min=0).flip(0).cumsum(0)
    rank = min(1 + int((held < energy * held[-1]).sum()), len(values))
    if rank * sum(matrix.shape) >= matrix.numel():
        return None
    chosen = vectors[:, -rank:].to(matrix.dtype)
    left, right = (matrix @ chosen, chosen.T) if tall else (chosen, chosen.T @ matrix)
    return left, right.reshape(rank, *tensor.shape[1:])


def restored(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The tensors whose parts arrived, multiplied out; a PayloadError where parts do not fit together.

    Where ``like`` says what is expected, parts of another shape are refused before they are multiplied: two small parts
    can make up a matrix that no memory holds.
    """
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(RIGHT):
            if name.removesuffix(RIGHT) + LEFT not in tensors:
                raise PayloadError(f"{name!r} came without its other part.")
            continue
        if not name.endswith(LEFT):
            result[name] = tensor
            continue
        whole = name.removesuffix(LEFT)
        right = tensors.get(whole + RIGHT)
        if (
            right is None
            or whole in tensors
            or tensor.dtype != right.dtype
            or tensor.ndim != 2
            or right.ndim < 2
            or tensor.shape[1] != len(right)
        ):
            raise PayloadError(f"the two parts of {whole!r} do not fit together.")
        shape = (len(tensor), *right.shape[1:])
        if like is not None and (whole not in like or like[whole].shape != shape):
            expected = tuple(like[whole].shape) if whole in like else "nothing of this name"
            raise PayloadError(f"the two parts of {whole!r} make up shape {shape}, expected {expected}.")
        result[whole] = (tensor @ right.flatten(1)).view(shape)
    return result
