"""Clients as the first dimension of what ``vmap`` gives, and what else it says."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack

Dims = tuple[int | None, ...]
"""Which dimension of each tensor is that of the clients; none where all have it in common."""


def derived_once() -> bool:
    """Whether nobody asks for the gradient of a gradient, or for one forwards, which our operations do not have."""
    kinds = [one.key() for one in get_interpreter_stack() or ()]
    return kinds.count(TransformType.Grad) <= 1 and TransformType.Jvp not in kinds


def in_front(clients: int, dims: Dims, *tensors: Tensor | None) -> list[Any]:
    """Tensors with the clients as their first dimension, also those that all clients have in common."""
    return [
        None if tensor is None else tensor.expand(clients, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, dims, strict=False)
    ]
