"""Max-pooling whose gradient finds the maxima again: less to write down than where they were, and less to read."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.engines.stacked.operations.clients import Dims, in_front
from potluck.engines.stacked.operations.kernels import usable
from potluck.engines.stacked.operations.slopes import pulled_back

Window = tuple[int, int]


class MaxPooling(torch.autograd.Function):
    """As ``max_pool2d`` with windows side by side."""

    @staticmethod
    def forward(x: Tensor, window: Window) -> Tensor:
        """The largest number of each window."""
        kernels = usable(x)
        return F.max_pool2d(x, window) if kernels is None else kernels.pool(x, window)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004  (PyTorch's)
        """Keep what the gradient is made of."""
        x, ctx.window = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        """Each slope goes to the first maximum of its window."""
        (x,) = ctx.saved_tensors
        return _Gradient.apply(x, slope, ctx.window), None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, window: Window) -> tuple[Tensor, int]:
        """Clients are so many more samples."""
        (x,) = in_front(info.batch_size, dims, x)
        pooled: Tensor = MaxPooling.apply(x.flatten(0, 1), window)  # type: ignore[no-untyped-call]
        return pooled.unflatten(0, x.shape[:2]), 0  # type: ignore[no-untyped-call]


class _Gradient(torch.autograd.Function):
    """The gradient of max-pooling."""

    @staticmethod
    def forward(x: Tensor, slope: Tensor, window: Window) -> Tensor:
        kernels = usable(x)
        if kernels is not None:
            gradient: Tensor = kernels.pool_gradient(x, slope, window)
            return gradient
        return pulled_back(lambda again: F.max_pool2d(again, window), x, slope)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, dims: Dims, x: Tensor, slope: Tensor, window: Window) -> tuple[Tensor, int]:
        x, slope = in_front(info.batch_size, dims, x, slope)
        gradient: Tensor = _Gradient.apply(x.flatten(0, 1), slope.flatten(0, 1), window)  # type: ignore[no-untyped-call]
        return gradient.unflatten(0, x.shape[:2]), 0  # type: ignore[no-untyped-call]
