"""Max-pooling of bfloat16 by windows of 2 by 2: quicker on a CPU than PyTorch's own, and the same of all numbers.

It takes the larger of two columns, then of two rows, of many channels at once. Which of two it was is a number of two
bytes, where PyTorch's index has eight; and numbers and gradients are handled as bits, which a CPU need not convert.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from potluck.engines.operands import window_of

_AT_ONCE = 16
"""Channels come in multiples of these, else a CPU would compute most of them one by one."""

_WORTH = 2**18
"""Of fewer numbers PyTorch's own is quicker."""


def pool(input: Tensor, *window: Any, **more: Any) -> Tensor | None:
    """As ``max_pool2d``; nothing, if windows are not 2 by 2, or not of many images that lie channels-last."""
    if window_of(*window, **more) != (2, 2) or not _suits(input):
        return None
    result: Tensor = _Pooling.apply(input)  # type: ignore[no-untyped-call]
    return result


def _suits(x: Tensor) -> bool:
    if x.dtype != torch.bfloat16 or x.ndim != 4 or not x.is_contiguous(memory_format=torch.channels_last):
        return False
    _, channels, height, width = x.shape
    return channels % _AT_ONCE == 0 and height % 2 == 0 and width % 2 == 0 and x.numel() >= _WORTH


class _Pooling(torch.autograd.Function):
    """The largest of 2 by 2 pixels; the first of them, where several are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        n, channels, height, width = x.shape
        columns = x.permute(0, 2, 3, 1).view(n, height, width // 2, 2, channels)
        larger, right = _larger(*columns.unbind(3))
        rows = larger.view(n, height // 2, 2, width // 2, channels)
        largest, below = _larger(*rows.unbind(2))
        ctx.save_for_backward(right, below)
        return largest.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        right, below = ctx.saved_tensors
        n, height, width, channels = right.shape
        gradient = gradients[0].permute(0, 2, 3, 1).contiguous()
        rows = _parted(gradient, below, 2).view(n, height, width, channels)
        return _parted(rows, right, 3).view(n, height, 2 * width, channels).permute(0, 3, 1, 2)


def _larger(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The larger of two, and where it is not the first: 1 there, 0 elsewhere."""
    larger = torch.maximum(one, other)
    second = torch.empty_like(larger, dtype=torch.int16)
    return larger, torch.ne(one.view(torch.int16), larger.view(torch.int16), out=second)


def _parted(gradient: Tensor, second: Tensor, dim: int) -> Tensor:
    """Gradients of the first and of the second of two, along a new dimension."""
    if torch.is_grad_enabled():  # it has a gradient itself, which it would not have in bits
        there = second.to(gradient.dtype)
        return torch.stack((gradient * (1 - there), gradient * there), dim)
    both = gradient.new_empty(*gradient.shape[:dim], 2, *gradient.shape[dim:])
    one, other = both.view(second.dtype).unbind(dim)
    bits = gradient.view(second.dtype)
    torch.mul(bits, second, out=other)
    torch.bitwise_xor(bits, other, out=one)
    return both
