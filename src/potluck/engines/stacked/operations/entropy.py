"""The cross-entropy of each sample in few operations: PyTorch's stacked form takes two dozen, and loads algebra."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.engines.stacked.operations.clients import Dims, in_front
from potluck.engines.stacked.operations.kernels import usable
from potluck.engines.stacked.operations.slopes import pulled_back

_MOST = 1024
"""Classes."""
_COUNTED = 1 << 30
"""Logits."""


def covers(logits: Tensor, label: Tensor) -> bool:
    """Whether it is the loss of some samples by their labels."""
    return logits.ndim == 2 and logits.is_floating_point() and label.ndim == 1 and label.dtype == torch.int64


def _kernels(logits: Tensor, *others: Tensor) -> Any:
    """The kernels, unless there are too many classes, or they would lose count."""
    return usable(logits, *others) if logits.shape[1] <= _MOST and logits.numel() < _COUNTED else None


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
        return pulled_back(lambda again: F.cross_entropy(again, label, reduction="none"), logits, slope)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, dims: Dims, logits: Tensor, label: Tensor, slope: Tensor) -> tuple[Tensor, int]:
        logits, label, slope = in_front(info.batch_size, dims, logits, label, slope)
        gradient: Tensor = _Gradient.apply(logits.flatten(0, 1), label.flatten(), slope.flatten())  # type: ignore[no-untyped-call]
        return gradient.view(logits.shape), 0
