"""Filters shifted to every place where they are needed, laid out as kernels read them.

A pixel, or a window, is seen through other parts of a filter than its neighbour. To find those parts for every few
pixels would take kernels as long as the products themselves; so it is done once for all.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

_AT_ONCE = 1024


@triton.jit
def _lay_out(weight, index, out, weight_step, count, AT_ONCE: tl.constexpr):
    """Some numbers of one client; zeros where the index is negative."""
    client = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = number < count
    at = tl.load(index + number, mask=inside, other=-1)
    value = tl.load(weight + client * weight_step + at, mask=at >= 0, other=0.0)
    tl.store(out + client * count + number, value, mask=inside)


def laid_out(weight: Tensor, index: Tensor) -> Tensor:
    """The filters of each client, [clients, ...], at the places of an index."""
    clients, count = len(weight), index.numel()
    out = weight.new_empty(clients, count)
    _lay_out[triton.cdiv(count, _AT_ONCE), clients](weight, index, out, weight.stride(0), count, AT_ONCE=_AT_ONCE)
    return out


@cache
def of_windows(
    filters: torch.Size, kept: tuple[int, int], last: bool, device: torch.device
) -> Tensor:  # fmt: skip
    """For what a window sees: each of the four pixels of the window has its own part of the filters.

    Args:
        filters: Outputs, channels, height and width.
        kept: Room for numbers that a window sees, and for outputs.
        last: Whether channels come last in memory.
        device: Where the index is needed.

    Returns:
        Index of [numbers seen, pixel, output].
    """
    outputs, channels, high, wide = filters
    seen = torch.arange(channels * (high + 1) * (wide + 1))
    if last:
        c, row, column = seen % channels, seen // (channels * (wide + 1)), seen // channels % (wide + 1)
    else:
        c, row, column = seen // ((high + 1) * (wide + 1)), seen // (wide + 1) % (high + 1), seen % (wide + 1)
    k, o = torch.arange(4).view(1, 4, 1), torch.arange(outputs).view(1, 1, -1)
    c, row, column = (one.view(-1, 1, 1) for one in (c, row, column))
    index = _places(filters, o, c, row - k // 2, column - k % 2)
    return _padded(index, (kept[0], 4, kept[1]), device)


@cache
def of_blocks(
    filters: torch.Size, padding: tuple[int, int], first: tuple[int, int], count: tuple[int, int],
    kept: tuple[int, int], device: torch.device,
) -> Tensor:  # fmt: skip
    """For windows that see a block of 2 by 2 pixels: each of its pixels is seen through other parts of the filters.

    Args:
        filters: Outputs, channels, height and width.
        padding: Of the convolution.
        first: How far the first of these windows is from the block, down and to the right.
        count: How many there are, down and to the right.
        kept: Room for outputs, and for channels.
        device: Where the index is needed.

    Returns:
        Index of [rows of windows, columns of windows, pixel of the window, output, row and column of the pixel of the
        block, channel].
    """
    outputs, channels, _, _ = filters
    sizes = *count, 4, outputs, 2, 2, channels
    i, j, k, o, down, right, c = torch.meshgrid(*(torch.arange(size) for size in sizes), indexing="ij")
    row = down + padding[0] - k // 2 - 2 * (first[0] + i)
    column = right + padding[1] - k % 2 - 2 * (first[1] + j)
    index = _places(filters, o, c, row, column)
    return _padded(index, (*count, 4, kept[0], 2, 2, kept[1]), device)


def _places(filters: torch.Size, o: Tensor, c: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Where these parts of the filters are; negative beside the filters."""
    _, channels, high, wide = filters
    there = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
    return torch.where(there, ((o * channels + c) * high + row) * wide + column, -1)


def _padded(index: Tensor, room: tuple[int, ...], device: torch.device) -> Tensor:
    out = torch.full(room, -1, dtype=torch.int32)
    out[tuple(slice(size) for size in index.shape)] = index
    return out.to(device)
