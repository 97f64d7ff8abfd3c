"""A convolution, max-pooling and ReLU as one operation, for stacked clients on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from potluck.engines.stacked.operations.clients import Dims, in_front
from potluck.engines.stacked.operations.together.blocks import (
    Padding,
    pooled,
    pooled_input_gradient,
    pooled_weight_gradient,
)


class Block(torch.autograd.Function):
    """ReLU of the largest of every 2 by 2 outputs of a convolution, and which of them it was."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, padding: Padding) -> tuple[Tensor, Tensor]:
        """That of one client."""
        out, which = pooled(x.unsqueeze(0), weight.unsqueeze(0), bias.unsqueeze(0), padding)
        return out.squeeze(0), which.squeeze(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep what the gradients are made of."""
        x, weight, _, ctx.padding = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, weight, output[1])

    @staticmethod
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        """The gradients that somebody asks for."""
        x, weight, which = ctx.saved_tensors
        by_x = by_weight = by_bias = None
        if ctx.needs_input_grad[0]:
            by_x = _InputGradient.apply(slope, which, weight, x.shape[1:], ctx.padding)  # type: ignore[no-untyped-call]
        if any(ctx.needs_input_grad[1:3]):
            by_weight, by_bias = _WeightGradient.apply(x, slope, which, weight.shape, ctx.padding)  # type: ignore[no-untyped-call]
        return by_x, by_weight, by_bias, None

    @staticmethod
    def vmap(
        info: Any, dims: Dims, x: Tensor, weight: Tensor, bias: Tensor, padding: Padding
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """Those of all clients."""
        x, weight, bias = in_front(info.batch_size, dims, x, weight, bias)
        return pooled(x, weight, bias, padding), (0, 0)


class _InputGradient(torch.autograd.Function):
    """The gradient by the input."""

    @staticmethod
    def forward(slope: Tensor, which: Tensor, weight: Tensor, size: torch.Size, padding: Padding) -> Tensor:
        slope, which, weight = (one.unsqueeze(0) for one in (slope, which, weight))
        return pooled_input_gradient(slope, which, weight, size, padding).squeeze(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, dims: Dims, slope: Tensor, which: Tensor, weight: Tensor, size: torch.Size, padding: Padding
    ) -> tuple[Tensor, int]:  # fmt: skip
        slope, which, weight = in_front(info.batch_size, dims, slope, which, weight)
        return pooled_input_gradient(slope, which, weight, size, padding), 0


class _WeightGradient(torch.autograd.Function):
    """The gradients by the filters and by the bias."""

    @staticmethod
    def forward(
        x: Tensor, slope: Tensor, which: Tensor, size: torch.Size, padding: Padding
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        x, slope, which = (one.unsqueeze(0) for one in (x, slope, which))
        by_weight, by_bias = pooled_weight_gradient(x, slope, which, size, padding)
        return by_weight.squeeze(0), by_bias.squeeze(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, dims: Dims, x: Tensor, slope: Tensor, which: Tensor, size: torch.Size, padding: Padding
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:  # fmt: skip
        x, slope, which = in_front(info.batch_size, dims, x, slope, which)
        return pooled_weight_gradient(x, slope, which, size, padding), (0, 0)
