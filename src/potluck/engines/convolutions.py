"""Convolutions to and from few channels, such as those of an image: quicker on a CPU, and the same but for rounding.

A CPU computes 8 or 16 channels of a pixel at once, and for three channels it computes as many. Here a block of 2 by 2
pixels takes the place of a pixel, and the kernel is shifted to each of the four: that makes 12 channels of three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from potluck.engines.operands import pair, under_autocast

_FEW = 4
"""Of so many channels at most, blocks of pixels are made."""

_BLOCK = ((0, 0), (0, 1), (1, 0), (1, 1))
"""The pixels of a block: how far down, how far right."""


class FewChannels(TorchFunctionMode):
    """While active, networks convolve few channels by blocks, where their images lie channels-last.

    It is for training on a CPU: it does more work than is asked for, in fewer and fuller steps.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Stand in for convolutions that this is for."""
        kwargs = kwargs or {}
        return _convolve(*args, **kwargs) if func is torch.conv2d else func(*args, **kwargs)


def _convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, *more: Any, **named: Any
) -> Tensor:
    if named or more not in ((), (1, 1), ((1, 1), 1)) or not _suits(x, weight, stride, padding):
        return F.conv2d(x, weight, bias, stride, padding, *more, **named)
    x, weight, bias = under_autocast(x, weight, bias)
    result: Tensor = _Convolution.apply(x, weight, bias, pair(padding))  # type: ignore[no-untyped-call]
    return result


def _suits(x: Tensor, weight: Tensor, stride: Any, padding: Any) -> bool:
    if x.ndim != 4 or pair(stride) != (1, 1) or isinstance(padding, str):
        return False
    to, of, *kernel = weight.shape
    few = to <= _FEW or (of <= _FEW and x.requires_grad)
    if not few or of != x.shape[1] or not x.is_contiguous(memory_format=torch.channels_last):
        return False
    pads = pair(padding)
    after = [size + 2 * pad - k + 1 for size, pad, k in zip(x.shape[2:], pads, kernel, strict=True)]
    whole = all(size > 0 and size % 2 == 0 for size in (*x.shape[2:], *after))
    return whole and all(pad < k for pad, k in zip(pads, kernel, strict=True))


class _Convolution(torch.autograd.Function):
    """A convolution; where it has few channels, or its gradient has, by blocks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.padding = padding
        return _by_blocks(x, weight, bias, padding) if len(weight) <= _FEW else F.conv2d(x, weight, bias, 1, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous(memory_format=torch.channels_last)
        of_x = _of_input(gradient, x, weight, ctx.padding) if ctx.needs_input_grad[0] else None
        if not any(ctx.needs_input_grad[1:3]):
            return of_x, None, None, None
        of_weight, of_bias = _of_weights(gradient, x, weight, ctx.padding)
        return of_x, of_weight, of_bias if ctx.needs_input_grad[2] else None, None


def _of_input(gradient: Tensor, x: Tensor, weight: Tensor, padding: Sequence[int]) -> Tensor:
    if weight.shape[1] > _FEW:
        return _gradients(gradient, x, weight, 1, padding, (True, False, False))[0]
    # It is a convolution itself: by the kernel turned round, to the channels that it came from.
    rest = [k - 1 - pad for k, pad in zip(weight.shape[2:], padding, strict=True)]
    return _by_blocks(gradient, weight.flip(2, 3).transpose(0, 1), None, rest)


def _of_weights(gradient: Tensor, x: Tensor, weight: Tensor, padding: Sequence[int]) -> tuple[Tensor, Tensor]:
    if len(weight) > _FEW:
        return _gradients(gradient, x, weight, 1, padding, (False, True, True))[1:]
    _, wide, biases = _gradients(_gathered(gradient), x, _widened(weight), 2, padding, (False, True, True))
    height, width = weight.shape[2:]
    parts = [
        part[:, :, down : down + height, right : right + width]
        for part, (down, right) in zip(wide.chunk(4), _BLOCK, strict=True)
    ]
    return torch.stack(parts).sum(0), biases.view(4, -1).sum(0)


def _by_blocks(x: Tensor, weight: Tensor, bias: Tensor | None, padding: Sequence[int]) -> Tensor:
    """A convolution that computes a block of 2 by 2 pixels at a time."""
    return _spread(F.conv2d(x, _widened(weight), None if bias is None else bias.repeat(4), 2, padding))


def _widened(weight: Tensor) -> Tensor:
    """Four kernels of each, shifted to the pixels of a block."""
    shifted = [F.pad(weight, (right, 1 - right, down, 1 - down)) for down, right in _BLOCK]
    return torch.cat(shifted).contiguous(memory_format=torch.channels_last)


def _spread(blocks: Tensor) -> Tensor:
    """Pixels out of blocks."""
    n, channels, height, width = blocks.shape
    rows = blocks.permute(0, 2, 3, 1).reshape(n, height, width, 2, channels // 2).transpose(2, 3)
    return rows.reshape(n, 2 * height, 2 * width, channels // 4).permute(0, 3, 1, 2)


def _gathered(pixels: Tensor) -> Tensor:
    """Blocks of pixels."""
    n, channels, height, width = pixels.shape
    rows = pixels.permute(0, 2, 3, 1).reshape(n, height // 2, 2, width // 2, 2 * channels).transpose(2, 3)
    return rows.reshape(n, height // 2, width // 2, 4 * channels).permute(0, 3, 1, 2)


def _gradients(
    gradient: Tensor, x: Tensor, weight: Tensor, stride: int, padding: Sequence[int], of: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's gradients of a convolution, with respect to its input, weight and bias."""
    result: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        gradient, x, weight, [len(weight)], [stride] * 2, list(padding), [1, 1], False, [0, 0], 1, list(of)
    )
    return result
