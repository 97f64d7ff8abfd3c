"""A convolution whose stacked form is not one grouped convolution.

Stacking turns a convolution into a grouped one, whose gradients libraries compute up to ten times as slowly as those of
each client by itself. Here stacked clients go through kernels made for them, where these fit, and else one by one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight

from potluck.engines.stacked.operations.clients import Dims, in_front
from potluck.engines.stacked.operations.shapes import Shape, through
from potluck.engines.stacked.operations.together.convolution import convolve, input_gradient, weight_gradient


class Convolution(torch.autograd.Function):
    """As ``conv2d``, and then ``relu`` if that is asked for."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape, relu: bool) -> Tensor:
        """The convolution of one client."""
        result = F.conv2d(x, weight, bias, *shape)
        return result.relu() if relu else result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep what the gradients are made of."""
        x, weight, _, ctx.shape, relu = inputs
        ctx.save_for_backward(x, weight, output if relu else None)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        """The gradients that somebody asks for."""
        x, weight, gate = ctx.saved_tensors
        by_x = by_weight = by_bias = None
        if ctx.needs_input_grad[0]:
            by_x = _InputGradient.apply(slope, weight, gate, x.shape, ctx.shape)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[1]:
            by_weight, by_bias = _WeightGradient.apply(x, slope, gate, weight.shape, ctx.shape)  # type: ignore[no-untyped-call]
        elif ctx.needs_input_grad[2]:
            by_bias = through(slope, gate).sum((0, 2, 3))
        return by_x, by_weight, by_bias if ctx.needs_input_grad[2] else None, None, None

    @staticmethod
    def vmap(
        info: Any, dims: Dims, x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape, relu: bool
    ) -> tuple[Tensor, int]:  # fmt: skip
        """The convolutions of all clients."""
        x, weight, bias = in_front(info.batch_size, dims, x, weight, bias)
        return convolve(x, weight, bias, shape, relu=relu), 0


class _InputGradient(torch.autograd.Function):
    """The gradient of a convolution by its input."""

    @staticmethod
    def forward(slope: Tensor, weight: Tensor, gate: Tensor | None, size: torch.Size, shape: Shape) -> Tensor:
        gradient: Tensor = conv2d_input(size, weight, through(slope, gate), *shape)  # type: ignore[no-untyped-call]
        return gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, dims: Dims, slope: Tensor, weight: Tensor, gate: Tensor | None, size: torch.Size, shape: Shape
    ) -> tuple[Tensor, int]:
        slope, weight, gate = in_front(info.batch_size, dims, slope, weight, gate)
        return input_gradient(slope, weight, size, shape, gate), 0


class _WeightGradient(torch.autograd.Function):
    """The gradients of a convolution by its filters and by its bias."""

    @staticmethod
    def forward(
        x: Tensor, slope: Tensor, gate: Tensor | None, size: torch.Size, shape: Shape
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        slope = through(slope, gate)
        return conv2d_weight(x, size, slope, *shape), slope.sum((0, 2, 3))  # type: ignore[no-untyped-call]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, dims: Dims, x: Tensor, slope: Tensor, gate: Tensor | None, size: torch.Size, shape: Shape
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        x, slope, gate = in_front(info.batch_size, dims, x, slope, gate)
        return weight_gradient(x, slope, size, shape, gate), (0, 0)
