"""Triton kernel for the papers' augmentation."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.data.augment.released import PADDING

_AT_ONCE = 1024


@triton.jit
def _release(
    x, rows, plan, constants, out,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, PADDING: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Some pixels of one image: bytes divided by 255, normalised, flipped, erased and shifted."""
    image = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = place < C * H * W
    channel = place // (H * W)
    flip = tl.load(plan + image * 8)
    erase = tl.load(plan + image * 8 + 1)
    row = place % (H * W) // W - PADDING + tl.load(plan + image * 8 + 2)
    column = place % W - PADDING + tl.load(plan + image * 8 + 3)
    top = tl.load(plan + image * 8 + 4)
    left = tl.load(plan + image * 8 + 5)
    bottom = tl.load(plan + image * 8 + 6)
    edge = tl.load(plan + image * 8 + 7)
    erased = (erase == 1) & (row >= top) & (row < bottom) & (column >= left) & (column < edge)
    seen = inside & (row >= 0) & (row < H) & (column >= 0) & (column < W) & (erased == 0)
    mirrored = tl.where(flip == 1, W - 1 - column, column)
    start = x + tl.load(rows + image) * (C * H * W)
    value = tl.load(start + channel * (H * W) + row * W + mirrored, mask=seen, other=0).to(tl.float32)
    mean = tl.load(constants + channel, mask=inside, other=0.0)
    std = tl.load(constants + C + channel, mask=inside, other=1.0)
    # Divided as a CPU does it, so that images are the same to the bit.
    value = tl.div_rn(tl.div_rn(value, 255.0) - mean, std)
    tl.store(out + image * (C * H * W) + place, tl.where(seen, value, 0.0), mask=inside)


def release(x: Tensor, rows: Tensor, plan: Tensor, constants: Tensor) -> Tensor:
    """The images at ``rows`` of ``x``, normalised and augmented.

    Args:
        x: All images, in bytes, [n, channels, height, width].
        rows: Which of them.
        plan: Of each, [images, 8].
        constants: Mean and standard deviation of each channel, [2, channels].
    """
    x, plan = x.contiguous(), plan.contiguous()
    out = torch.empty(len(rows), *x.shape[1:], dtype=torch.float32, device=x.device)
    blocks = triton.cdiv(out[0].numel(), _AT_ONCE)
    _release[len(rows), blocks](x, rows, plan, constants, out, *x.shape[1:], PADDING=PADDING, AT_ONCE=_AT_ONCE)
    return out
