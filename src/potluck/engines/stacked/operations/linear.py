"""Linear layers of stacked clients: products of matrices, and little beside them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from potluck.engines.stacked.operations.clients import Dims, in_front
from potluck.engines.stacked.operations.kernels import usable
from potluck.engines.stacked.operations.shapes import through

_COUNTED = 1 << 30
"""Outputs of one client: of more, kernels would lose count."""


def _products(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """What each client's layer gives, of ``x`` [clients, samples, inputs]."""
    kernels = usable(x, weight, bias) if x.shape[1] * weight.shape[1] < _COUNTED else None
    if kernels is not None and bias is not None:
        result = torch.bmm(x, weight.mT)
        kernels.shift(result, bias, relu=relu)
        return result
    result = torch.bmm(x, weight.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, weight.mT)
    return result.relu() if relu else result


def _settled(slope: Tensor, gate: Tensor | None, *, summed: bool) -> tuple[Tensor, Tensor]:
    """Slopes that a ReLU lets through, and, where anybody asks for them, those of biases."""
    kernels = usable(slope, gate) if summed or gate is not None else None
    if kernels is not None:
        gated, sums = kernels.settle(slope, gate, summed=summed)
        return gated, slope.new_empty(0) if sums is None else sums
    gated = through(slope, gate)
    return gated, gated.sum(1) if summed else slope.new_empty(0)


class Linear(torch.autograd.Function):
    """As ``linear``, and then ``relu`` if that is asked for."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        """The layer of one client."""
        shift = None if bias is None else bias.unsqueeze(0)
        return _products(x.unsqueeze(0), weight.unsqueeze(0), shift, relu).squeeze(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep what the gradients are made of."""
        x, weight, _, relu = inputs
        ctx.save_for_backward(x, weight, output if relu else None)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        """The gradients that somebody asks for."""
        x, weight, gate = ctx.saved_tensors
        gated, by_bias = _Settled.apply(slope, gate, ctx.needs_input_grad[2])  # type: ignore[no-untyped-call]
        by_x = gated @ weight if ctx.needs_input_grad[0] else None
        by_weight = gated.mT @ x if ctx.needs_input_grad[1] else None
        return by_x, by_weight, by_bias if ctx.needs_input_grad[2] else None, None

    @staticmethod
    def vmap(
        info: Any, dims: Dims, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool
    ) -> tuple[Tensor, int]:  # fmt: skip
        """The layers of all clients."""
        x, weight, bias = in_front(info.batch_size, dims, x, weight, bias)
        return _products(x, weight, bias, relu), 0


class _Settled(torch.autograd.Function):
    """The gradients by what the product gave, and by the bias."""

    @staticmethod
    def forward(slope: Tensor, gate: Tensor | None, summed: bool) -> tuple[Tensor, Tensor]:
        gated, sums = _settled(slope.unsqueeze(0), None if gate is None else gate.unsqueeze(0), summed=summed)
        return gated.squeeze(0), sums.squeeze(0) if summed else sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, dims: Dims, slope: Tensor, gate: Tensor | None, summed: bool
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int | None]]:  # fmt: skip
        slope, gate = in_front(info.batch_size, dims, slope, gate)
        return _settled(slope, gate, summed=summed), (0, 0 if summed else None)
