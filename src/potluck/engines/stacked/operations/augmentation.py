"""Samples of a pool as networks see them in training: taken, normalised and augmented, in one go where possible."""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.data.transform import Transform
from potluck.engines.stacked.operations.kernels import compiled


def augmented(transform: Transform, x: Tensor, rows: Tensor, plan: Tensor, dtype: torch.dtype) -> Tensor:
    """The samples at ``rows`` of ``x``, augmented as planned.

    Args:
        transform: How samples become inputs.
        x: Samples of all clients.
        rows: Which of them.
        plan: What :meth:`Transform.plan` made of their keys.
        dtype: Of the result.
    """
    kernels = compiled() if x.is_cuda and x.dtype == torch.uint8 and dtype == torch.float32 else None
    constants = transform.constants(torch.float32, x.device)
    if kernels is None or constants is None or transform.augmentation != "release":
        return transform.planned(x.index_select(0, rows), plan, dtype)
    moved: Tensor = kernels.release(x, rows, plan, constants)
    return moved
