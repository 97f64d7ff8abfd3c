"""Tensors as products of two thin matrices, where that is shorter: FedKD's way over the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from potluck.errors import PayloadError

LEFT, RIGHT = ":left", ":right"


def shortened(tensors: Mapping[str, Tensor], energy: float) -> dict[str, Tensor]:
    """Each tensor of two or more dimensions as ``name:left`` [rows, rank] and ``name:right`` [rank, ...].

    The rank is the smallest, at least 1, whose singular values hold more than the share ``energy`` of the sum of all
    squares. Where both parts together would not be shorter than the tensor, and for vectors, it stays as it is.
    """
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        parts = _parts(tensor, energy) if tensor.ndim > 1 else None
        result |= {name: tensor} if parts is None else {name + LEFT: parts[0], name + RIGHT: parts[1]}
    return result


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
    total = held[-1]
    rank = 1 if total == 0 else min(1 + int((held <= energy * total).sum()), len(values))
    if not _is_shorter(rank, matrix.shape):
        return None
    chosen = vectors[:, -rank:].to(matrix.dtype)
    left, right = (matrix @ chosen, chosen.T) if tall else (chosen, chosen.T @ matrix)
    return left, right.reshape(rank, *tensor.shape[1:])


def _is_shorter(rank: int, shape: tuple[int, ...]) -> bool:
    """Whether two parts of this rank have fewer numbers than the matrix of this shape that they stand for."""
    rows, columns = shape
    return rank * (rows + columns) < rows * columns


def restored(
    tensors: Mapping[str, Tensor],
    like: Mapping[str, Tensor] | None = None,
    multiply: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> dict[str, Tensor]:
    """The tensors whose parts arrived, multiplied out; a PayloadError where parts do not fit together.

    Args:
        tensors: What arrived.
        like: What is expected, if that is known, as for :func:`paired`.
        multiply: How: by :func:`product`, unless no other machine needs to come to the same bits.
    """
    multiply = multiply or product
    result: dict[str, Tensor] = {}
    for name, part in paired(tensors, like):
        if isinstance(part, Tensor):
            result[name] = part
        else:
            left, right = part
            result[name] = multiply(left, right.flatten(1)).view(len(left), *right.shape[1:])
    return result


def paired(
    tensors: Mapping[str, Tensor], like: Mapping[str, Tensor] | None = None
) -> Iterator[tuple[str, Tensor | tuple[Tensor, Tensor]]]:
    """The tensors by name, or both parts of one; a PayloadError where parts do not fit together.

    Where ``like`` says what is expected, parts of another shape are refused before they are multiplied: two small parts
    can make up a matrix that no memory holds. So are parts of a rank that :func:`shortened` never gives.
    """
    for name, tensor in tensors.items():
        if name.endswith(RIGHT):
            if name.removesuffix(RIGHT) + LEFT not in tensors:
                raise PayloadError(f"{name!r} came without its other part.")
            continue
        if not name.endswith(LEFT):
            yield name, tensor
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
        flat = right.flatten(1)
        if like is not None and (whole not in like or like[whole].shape != shape):
            expected = tuple(like[whole].shape) if whole in like else "nothing of this name"
            raise PayloadError(f"the two parts of {whole!r} make up shape {shape}, expected {expected}.")
        if not len(flat) or not _is_shorter(len(flat), (len(tensor), flat.shape[1])):
            raise PayloadError(f"the two parts of {whole!r} are of rank {len(flat)}, and no shorter than {shape}.")
        yield whole, (tensor, right)


def product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right``, to the same bit on every machine, with any number of threads: rank after rank, in order.

    A library's product of matrices may add up in another order elsewhere, so that copies of one sum drift apart.
    """
    left, right = left.detach(), right.detach()
    result = left[:, :1] * right[:1]
    part = torch.empty_like(result)
    for rank in range(1, len(right)):
        # Two operations: in one, a machine may leave out the rounding between them.
        result += torch.mul(left[:, rank : rank + 1], right[rank], out=part)
    return result
