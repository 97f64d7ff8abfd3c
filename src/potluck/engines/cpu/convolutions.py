"""Convolutions to and from few channels, such as those of an image: quicker on a CPU, and the same but for rounding.

A CPU computes 8 or 16 channels of a pixel at once, and for three channels it computes as many. Here a block of pixels
takes the place of a pixel, and the kernel is shifted to each of them: a block of 2 by 2 makes 12 channels of three, and
two pixels side by side make 16 of eight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.engines.operands import pair, under_autocast

_FEW = 8
"""Of so many channels at most, blocks of pixels are made."""


def convolve(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor | None:  # fmt: skip
    """As ``torch.conv2d``; nothing, if it has many channels, or is not over images that lie channels-last.

    It does more work than is asked for, in fewer and fuller steps.
    """
    if pair(dilation) != (1, 1) or groups != 1 or not _suits(input, weight, stride, padding):
        return None
    x, weight, bias = under_autocast(input, weight, bias)
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
        return _gradients(gradient, x, weight, (1, 1), padding, (True, False, False))[0]
    # It is a convolution itself: by the kernel turned round, to the channels that it came from.
    rest = [k - 1 - pad for k, pad in zip(weight.shape[2:], padding, strict=True)]
    return _by_blocks(gradient, weight.flip(2, 3).transpose(0, 1), None, rest)


def _of_weights(gradient: Tensor, x: Tensor, weight: Tensor, padding: Sequence[int]) -> tuple[Tensor, Tensor]:
    if len(weight) > _FEW:
        return _gradients(gradient, x, weight, (1, 1), padding, (False, True, True))[1:]
    block = _block(len(weight))
    blocks, kernels = _gathered(gradient, block), _widened(weight, block)
    _, wide, biases = _gradients(blocks, x, kernels, block, padding, (False, True, True))
    height, width = weight.shape[2:]
    places = _places(block)
    parts = [
        part[:, :, down : down + height, right : right + width]
        for part, (down, right) in zip(wide.chunk(len(places)), places, strict=True)
    ]
    return torch.stack(parts).sum(0), biases.view(len(places), -1).sum(0)


def _block(channels: int) -> tuple[int, int]:
    """Height and width of the blocks in which a CPU computes so few channels best."""
    return (2, 2) if channels <= _FEW // 2 else (1, 2)


def _places(block: tuple[int, int]) -> list[tuple[int, int]]:
    """The pixels of a block: how far down, how far right."""
    return [(down, right) for down in range(block[0]) for right in range(block[1])]


def _by_blocks(x: Tensor, weight: Tensor, bias: Tensor | None, padding: Sequence[int]) -> Tensor:
    """A convolution that computes a block of pixels at a time."""
    block = _block(len(weight))
    biases = None if bias is None else bias.repeat(block[0] * block[1])
    blocks = F.conv2d(x, _widened(weight, block), biases, block, padding)
    return _spread(blocks.contiguous(memory_format=torch.channels_last), block)


def _widened(weight: Tensor, block: tuple[int, int]) -> Tensor:
    """As many kernels of each as a block has pixels, shifted to these."""
    last_down, last_right = block[0] - 1, block[1] - 1
    shifted = [F.pad(weight, (right, last_right - right, down, last_down - down)) for down, right in _places(block)]
    return torch.cat(shifted).contiguous(memory_format=torch.channels_last)


def _spread(blocks: Tensor, block: tuple[int, int]) -> Tensor:
    """Pixels out of blocks."""
    n, channels, height, width = blocks.shape
    down, right = block
    rows = _in_pairs(blocks.permute(0, 2, 3, 1).reshape(n, height, width, down, channels // down))
    pixels = _one_by_one(rows.transpose(2, 3).contiguous(), blocks.dtype)
    return pixels.view(n, down * height, right * width, channels // (down * right)).permute(0, 3, 1, 2)


def _gathered(pixels: Tensor, block: tuple[int, int]) -> Tensor:
    """Blocks of pixels."""
    n, channels, height, width = pixels.shape
    down, right = block
    rows = pixels.permute(0, 2, 3, 1).reshape(n, height // down, down, width // right, right * channels)
    if down == 1:
        return rows.squeeze(2).permute(0, 3, 1, 2)
    # Row by row, which takes half as long as a copy of all in the order of the blocks.
    return _one_by_one(torch.cat(_in_pairs(rows).unbind(2), 3), pixels.dtype).permute(0, 3, 1, 2)


def _in_pairs(x: Tensor) -> Tensor:
    """Two numbers of bfloat16 as one, of which half as many are to be copied; not where that has a gradient."""
    pairs = x.dtype == torch.bfloat16 and x.storage_offset() % 2 == 0 and not torch.is_grad_enabled()
    return x.view(torch.int32) if pairs else x


def _one_by_one(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers of :func:`_in_pairs` again."""
    return x if x.dtype == dtype else x.view(dtype)


def _gradients(
    gradient: Tensor, x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], of: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's gradients of a convolution, with respect to its input, weight and bias."""
    result: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        gradient, x, weight, [len(weight)], list(stride), list(padding), [1, 1], False, [0, 0], 1, list(of)
    )
    return result
