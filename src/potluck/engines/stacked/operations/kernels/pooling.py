"""Triton kernels for max-pooling with windows side by side."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.engines.stacked.operations.kernels.memory import arranged, empty, is_last

_AT_ONCE = 1024


@triton.jit
def larger(value, most):
    """Whether a number takes the place of the largest so far: what is no number always does, as in PyTorch."""
    return (value > most) | (value != value)  # noqa: PLR0124


@triton.jit
def _start(
    window, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """Where the first number of a window is."""
    if LAST:
        place = window // C
        start = place // (OH * OW) * (H * W) + place // OW % OH * (KH * W) + place % OW * KW
        start = start * C + window % C
    else:
        start = window // (OH * OW) * (H * W) + window // OW % OH * (KH * W) + window % OW * KW
    return start


@triton.jit(do_not_specialize=["windows"])
def _pool(
    x, out, windows, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, LAST: tl.constexpr, LONG: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """The largest number of each of some windows."""
    window = tl.program_id(0).to(tl.int64 if LONG else tl.int32) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = window < windows
    COLUMN: tl.constexpr = C if LAST else 1
    start = x + _start(window, C, H, W, OH, OW, KH, KW, LAST)
    most = tl.load(start, mask=inside, other=0.0)
    for k in tl.static_range(1, KH * KW):
        value = tl.load(start + (k // KW * W + k % KW) * COLUMN, mask=inside, other=0.0)
        most = tl.where(larger(value, most), value, most)
    tl.store(out + window, most, mask=inside)


@triton.jit(do_not_specialize=["windows"])
def _pool_gradient(
    x, slope, out, windows, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, LAST: tl.constexpr, LONG: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """The slope of each of some windows where its largest number is, and zeros beside it."""
    window = tl.program_id(0).to(tl.int64 if LONG else tl.int32) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = window < windows
    COLUMN: tl.constexpr = C if LAST else 1
    start = _start(window, C, H, W, OH, OW, KH, KW, LAST)
    most = tl.load(x + start, mask=inside, other=0.0)
    where = tl.zeros((AT_ONCE,), tl.int32)
    for k in tl.static_range(1, KH * KW):
        value = tl.load(x + start + (k // KW * W + k % KW) * COLUMN, mask=inside, other=0.0)
        replaces = larger(value, most)
        most = tl.where(replaces, value, most)
        where = tl.where(replaces, k, where)
    steep = tl.load(slope + window, mask=inside, other=0.0)
    for k in tl.static_range(KH * KW):
        tl.store(out + start + (k // KW * W + k % KW) * COLUMN, tl.where(where == k, steep, 0.0), mask=inside)


def pool(x: Tensor, window: tuple[int, int]) -> Tensor:
    """The largest number of each window, of ``x`` [samples, channels, height, width]."""
    x = arranged(x)
    samples, channels, height, width = x.shape
    out = empty(x, samples, channels, height // window[0], width // window[1])
    sizes = channels, height, width, *out.shape[2:], *window, is_last(channels), _is_long(x)
    _pool[(triton.cdiv(out.numel(), _AT_ONCE),)](x, out, out.numel(), *sizes, AT_ONCE=_AT_ONCE)
    return out


def pool_gradient(x: Tensor, slope: Tensor, window: tuple[int, int]) -> Tensor:
    """The gradient by ``x``, if that by what was pooled is ``slope``."""
    x, slope = arranged(x), arranged(slope)
    channels, height, width = x.shape[1:]
    out = torch.empty_like(x)
    if height % window[0] or width % window[1]:
        out.zero_()  # what is in no window has no slope
    sizes = channels, height, width, *slope.shape[2:], *window, is_last(channels), _is_long(x)
    _pool_gradient[(triton.cdiv(slope.numel(), _AT_ONCE),)](x, slope, out, slope.numel(), *sizes, AT_ONCE=_AT_ONCE)
    return out


def _is_long(x: Tensor) -> bool:
    """Whether places need 64 bits, which GPUs divide slowly."""
    return x.numel() + _AT_ONCE * x.shape[2] * x.shape[3] >= 1 << 31
