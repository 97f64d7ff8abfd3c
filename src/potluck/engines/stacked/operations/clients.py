"""Clients as the first dimension of what ``vmap`` gives."""

from __future__ import annotations

from typing import Any

from torch import Tensor

Dims = tuple[int | None, ...]
"""Which dimension of each tensor is that of the clients; none where all have it in common."""


def in_front(clients: int, dims: Dims, *tensors: Tensor | None) -> list[Any]:
    """Tensors with the clients as their first dimension, also those that all clients have in common."""
    return [
        None if tensor is None else tensor.expand(clients, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip(tensors, dims, strict=False)
    ]
