"""Gradients of a loss that is computed within a ``vmap``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._functorch import eager_transforms

from potluck.engines.stacked.template import Weights

_transforms: Any = eager_transforms
_NO_HOOKS = "what is kept for gradients cannot be put elsewhere, as by checkpoints, within a vmap"


def gradients_and_value(
    loss: Callable[[Weights], tuple[Tensor, Weights]], weights: Weights
) -> tuple[Weights, tuple[Tensor, Weights]]:
    """Gradients of ``loss`` by each of the weights, its value, and what else it gives.

    It is what ``torch.func.grad_and_value`` does, of the same parts; that loads PyTorch's compiler first, to keep it
    out of the way, which takes longer than to train a small client.
    """
    hooks = torch.autograd.graph.disable_saved_tensors_hooks(_NO_HOOKS)
    with hooks, _transforms.grad_increment_nesting() as level, torch.enable_grad():
        given = _transforms._wrap_all_tensors(weights, level)
        own = _transforms._create_differentiable(given, level)
        value, more = loss(own)
        if value.ndim:
            raise ValueError(f"a loss is a single number, and this one has the shape {tuple(value.shape)}.")
        found: tuple[Tensor | None, ...] = (None,) * len(own)
        if value.requires_grad:
            # With a graph: otherwise those within an outer transform would be computed without gradients.
            found = torch.autograd.grad(value, list(own.values()), create_graph=True, allow_unused=True)
        each = {
            path: torch.zeros_like(tensor) if slope is None else slope
            for (path, tensor), slope in zip(own.items(), found, strict=True)
        }
        gradients, value, more = _transforms._undo_create_differentiable((each, value, more), level)
    return gradients, (value, more)
