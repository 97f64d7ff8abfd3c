"""The cross-entropy of each sample in few operations, of which PyTorch's stacked form takes two dozen."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.engines.stacked.operations.clients import Dims, in_front
from potluck.engines.stacked.operations.kernels import suitable, usable

_MOST = 1024
"""Classes."""
_COUNTED = 1 << 30
"""Logits."""


def covers(logits: Tensor, label: Tensor) -> bool:
    """Whether kernels are made for such a loss."""
    labels = logits.ndim == 2 and label.ndim == 1 and label.dtype == torch.int64
    return suitable(logits) is not None and labels and logits.shape[1] <= _MOST


def _kernels(logits: Tensor, *others: Tensor) -> Any:
    """The kernels, unless they would lose count."""
    return usable(logits, *others) if logits.numel() < _COUNTED else None


class CrossEntropy(torch.autograd.Function):
    """As ``cross_entropy`` without reduction."""

    @staticmethod
    def forward(logits: Tensor, label: Tensor) -> Tensor:
        """The loss of each sample."""
        kernels = _kernels(logits, label)
        return F.cross_entropy(logits, label, reduction="none") if kernels is None else kernels.entropy(logits, label)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004  (PyTorch's)
        """Keep what the gradient is made of."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        """Towards the label, and away from everything else."""
        logits, label = ctx.saved_tensors
        return _Gradient.apply(logits, label, slope), None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, dims: Dims, logits: Tensor, label: Tensor) -> tuple[Tensor, int]:
        """Clients are so many more samples."""
        logits, label = in_front(info.batch_size, dims, logits, label)
        losses: Tensor = CrossEntropy.apply(logits.flatten(0, 1), label.flatten())  # type: ignore[no-untyped-call]
        return losses.view(label.shape), 0


class _Gradient(torch.autograd.Function):
    """The gradient by the logits."""

    @staticmethod
    def forward(logits: Tensor, label: Tensor, slope: Tensor) -> Tensor:
        kernels = _kernels(logits, label, slope)
        if kernels is not None:
            gradient: Tensor = kernels.entropy_gradient(logits, label, slope)
            return gradient
        with torch.enable_grad():
            again = logits.detach().requires_grad_()
            (found,) = torch.autograd.grad(F.cross_entropy(again, label, reduction="none"), again, slope)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, dims: Dims, logits: Tensor, label: Tensor, slope: Tensor) -> tuple[Tensor, int]:
        logits, label, slope = in_front(info.batch_size, dims, logits, label, slope)
        gradient: Tensor = _Gradient.apply(logits.flatten(0, 1), label.flatten(), slope.flatten())  # type: ignore[no-untyped-call]
        return gradient.view(logits.shape), 0
