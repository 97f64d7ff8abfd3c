"""Triton kernels for max-pooling with windows side by side."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_AT_ONCE = 1024


@triton.jit
def _larger(value, most):
    """Whether a number takes the place of the largest so far: what is no number always does, as in PyTorch."""
    return (value > most) | (value != value)  # noqa: PLR0124


@triton.jit(do_not_specialize=["windows"])
def _pool(
    x, out, windows, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """The largest number of each of some windows."""
    window = tl.program_id(0).to(tl.int64) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = window < windows
    place = window % (OH * OW)
    start = x + window // (OH * OW) * (H * W) + place // OW * (KH * W) + place % OW * KW
    most = tl.load(start, mask=inside, other=0.0)
    for k in tl.static_range(1, KH * KW):
        value = tl.load(start + (k // KW * W + k % KW), mask=inside, other=0.0)
        most = tl.where(_larger(value, most), value, most)
    tl.store(out + window, most, mask=inside)


@triton.jit(do_not_specialize=["windows"])
def _pool_gradient(
    x, slope, out, windows, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """The slope of each of some windows where its largest number is, and zeros beside it."""
    window = tl.program_id(0).to(tl.int64) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = window < windows
    place = window % (OH * OW)
    start = window // (OH * OW) * (H * W) + place // OW * (KH * W) + place % OW * KW
    most = tl.load(x + start, mask=inside, other=0.0)
    where = tl.zeros((AT_ONCE,), tl.int32)
    for k in tl.static_range(1, KH * KW):
        value = tl.load(x + start + (k // KW * W + k % KW), mask=inside, other=0.0)
        larger = _larger(value, most)
        most = tl.where(larger, value, most)
        where = tl.where(larger, k, where)
    steep = tl.load(slope + window, mask=inside, other=0.0)
    for k in tl.static_range(KH * KW):
        tl.store(out + start + (k // KW * W + k % KW), tl.where(where == k, steep, 0.0), mask=inside)


def pool(x: Tensor, window: tuple[int, int]) -> Tensor:
    """The largest number of each window, of ``x`` [samples, channels, height, width]."""
    x = x.contiguous()
    height, width = x.shape[2:]
    out = x.new_empty(*x.shape[:2], height // window[0], width // window[1])
    sizes = height, width, *out.shape[2:], *window
    _pool[(triton.cdiv(out.numel(), _AT_ONCE),)](x, out, out.numel(), *sizes, AT_ONCE=_AT_ONCE)
    return out


def pool_gradient(x: Tensor, slope: Tensor, window: tuple[int, int]) -> Tensor:
    """The gradient by ``x``, if that by what was pooled is ``slope``."""
    x, slope = x.contiguous(), slope.contiguous()
    height, width = x.shape[2:]
    whole = height % window[0] == 0 and width % window[1] == 0
    out = torch.empty_like(x) if whole else torch.zeros_like(x)  # what is in no window has no slope
    sizes = height, width, *slope.shape[2:], *window
    _pool_gradient[(triton.cdiv(slope.numel(), _AT_ONCE),)](x, slope, out, slope.numel(), *sizes, AT_ONCE=_AT_ONCE)
    return out
