"""Triton kernels for convolutions of few channels: one product after another, in float32.

Every input is read once for all outputs. Images have their channels first. A slope may come with a gate: what a ReLU
gave, which lets a slope through where it is positive.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.engines.stacked.operations.kernels.memory import dense
from potluck.engines.stacked.operations.kernels.places import NUMBERS, place, shares, within

_QUICK = 150
"""Products that are written out one by one: of more, only a row at a time."""
_SUMS = 108
"""Gradients that a thread has at hand: of more, only those by a row at a time."""
_AT_ONCE = 128
"""Pixels of a program, one for each thread: of two, Triton 3.6 has read those beyond the padding as well."""


@triton.jit
def _through(steep, gate, where, seen, GATED: tl.constexpr):
    """Slopes, as far as the gate lets them through."""
    if GATED:
        steep = tl.where(tl.load(gate + where, mask=seen, other=0.0) <= 0, 0.0, steep)
    return steep


@triton.jit(do_not_specialize=NUMBERS)
def _direct(
    x, gate, weight, bias, out, weight_step, bias_step, pixels, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    GATED: tl.constexpr, TURNED: tl.constexpr, BIASED: tl.constexpr, RELU: tl.constexpr,
    PIXELS: tl.constexpr, TALL: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Outputs of all channels for some columns of ``TALL`` pixels of one client."""
    client = tl.program_id(1).to(tl.int64)
    x += client * samples * (C * H * W)
    gate += client * samples * (C * H * W)
    weight += client * weight_step
    bias += client * bias_step
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < pixels
    sample, row, column = place(pixel, (OH + TALL - 1) // TALL, OW)
    top = row * TALL
    target = sample * (O * OH * OW) + top * OW + column
    row = top - PH
    column -= PW
    start = sample * (C * H * W) + row * W + column
    sums = ()
    for o in tl.static_range(O):
        shift = tl.load(bias + o).to(tl.float32) if BIASED else 0.0
        for _ in tl.static_range(TALL):
            sums = sums + (tl.zeros((PIXELS,), tl.float32) + shift,)
    for c in range(C):
        for first in range(0, KH, ROWS):
            values = ()
            for k in tl.static_range((ROWS + TALL - 1) * KW):
                # Of columns that reach beyond the last row, too.
                seen = inside & (row + (first + k // KW) >= 0) & (row + (first + k // KW) < H)
                seen = within(seen, column + k % KW, W, PW)
                where = start + (c * (H * W) + (first + k // KW) * W + k % KW)
                value = tl.load(x + where, mask=seen, other=0.0)
                values = values + (_through(value, gate, where, seen, GATED).to(tl.float32),)
            more = ()
            for o in tl.static_range(O):
                for v in tl.static_range(TALL):
                    total = sums[o * TALL + v]  # type: ignore[var-annotated]
                    for k in tl.static_range(ROWS * KW):
                        tap = first * KW + k
                        own = (c * O + o + 1) * (KH * KW) - 1 - tap if TURNED else (o * C + c) * (KH * KW) + tap
                        total += values[v * KW + k] * tl.load(weight + own).to(tl.float32)
                    more = more + (total,)
            sums = more
    out += client * samples * (O * OH * OW)
    for o in tl.static_range(O):
        for v in tl.static_range(TALL):
            value = sums[o * TALL + v]
            if RELU:
                value = tl.where(value <= 0, 0.0, value)
            there = inside & (top + v < OH)
            tl.store(out + target + (o * (OH * OW) + v * OW), value.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=NUMBERS)
def _by_rows(
    x, slope, gate, found, pixels, share, samples, clients,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    GATED: tl.constexpr, PIXELS: tl.constexpr, TALL: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Gradients by some rows of some channels of all filters of a client, and by its bias, over a share of all pixels.

    A thread takes columns of ``TALL`` pixels, which see much of the same.
    """
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    first = tl.program_id(2) // (KH // ROWS) * CHANNELS
    above = tl.program_id(2) % (KH // ROWS) * ROWS
    x += client * samples * (C * H * W) + first * (H * W) + above * W
    slope += client * samples * (O * OH * OW)
    gate += client * samples * (O * OH * OW)
    SEEN: tl.constexpr = (ROWS + TALL - 1) * KW
    EACH: tl.constexpr = CHANNELS * ROWS * KW
    sums = ()
    for _ in tl.static_range(O * EACH):
        sums = sums + (tl.zeros((PIXELS,), tl.float32),)
    totals = ()
    for _ in tl.static_range(O):
        totals = totals + (tl.zeros((PIXELS,), tl.float32),)
    stop = tl.minimum((part + 1) * share, pixels)
    for begin in range(part * share, stop, PIXELS):
        pixel = begin + tl.arange(0, PIXELS)
        inside = pixel < stop
        sample, row, column = place(pixel, (OH + TALL - 1) // TALL, OW)
        top = row * TALL
        where = sample * (O * OH * OW) + top * OW + column
        row = top - PH
        column -= PW
        start = sample * (C * H * W) + row * W + column
        values = ()
        for k in tl.static_range(CHANNELS * SEEN):
            at = above + k % SEEN // KW
            seen = within(inside & (row + at >= 0) & (row + at < H), column + k % KW, W, PW)
            near = start + (k // SEEN * (H * W) + k % SEEN // KW * W + k % KW)
            values = values + (tl.load(x + near, mask=seen, other=0.0).to(tl.float32),)
        more = ()
        counted = ()
        for o in tl.static_range(O):
            steeps = ()
            total = totals[o]  # type: ignore[var-annotated]
            for v in tl.static_range(TALL):
                here = where + (o * (OH * OW) + v * OW)
                there = inside & (top + v < OH)
                steep = tl.load(slope + here, mask=there, other=0.0)
                steep = _through(steep, gate, here, there, GATED).to(tl.float32)
                steeps = steeps + (steep,)
                total += steep
            counted = counted + (total,)
            for k in tl.static_range(EACH):
                added = sums[o * EACH + k]  # type: ignore[var-annotated]
                for v in tl.static_range(TALL):
                    added += values[k // (ROWS * KW) * SEEN + v * KW + k % (ROWS * KW)] * steeps[v]
                more = more + (added,)
        sums = more
        totals = counted
    K: tl.constexpr = C * KH * KW
    found += (part * clients + client) * (O * K + O)
    for o in tl.static_range(O):
        for k in tl.static_range(EACH):
            c = first + k // (ROWS * KW)
            tl.store(found + o * K + (c * KH + above) * KW + k % (ROWS * KW), tl.sum(sums[o * EACH + k], 0))
    if first + above == 0:
        for o in tl.static_range(O):
            tl.store(found + O * K + o, tl.sum(totals[o], 0))


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, padding: tuple[int, int], *,
    gate: Tensor | None = None, relu: bool = False, turned: bool = False,
) -> None:  # fmt: skip
    """Write the convolution of each client.

    Args:
        x: [clients, samples, channels, height, width].
        weight: Its filters.
        bias: What is added, or none.
        out: Where the result is written.
        padding: Rows and columns of zeros on either side.
        gate: What lets ``x`` through.
        relu: Whether the result goes through a ReLU.
        turned: Whether it is by the filters the other way round, with their ends exchanged.
    """
    weight, biased, gated = dense(weight), bias is not None, gate is not None
    bias = weight if bias is None else dense(bias)  # any memory, where there is none
    (clients, samples), (outputs, height, width), kernel = x.shape[:2], out.shape[2:], weight.shape[3:]
    # All rows of a filter at once, unless that would take long to compile.
    quick = outputs * kernel[0] * kernel[1] <= _QUICK
    rows, tall = (kernel[0], 2 if gated else 4) if quick else (1, 1)
    pixels = samples * triton.cdiv(height, tall) * width
    _direct[triton.cdiv(pixels, _AT_ONCE), clients](
        x, x if gate is None else gate, weight, bias, out, weight.stride(0), bias.stride(0), pixels, samples,
        *x.shape[2:], outputs, height, width, *kernel, *padding, gated, turned, biased, relu,
        PIXELS=_AT_ONCE, TALL=tall, ROWS=rows, num_warps=_AT_ONCE // 32,
    )  # fmt: skip


def weight_gradient(
    x: Tensor, slope: Tensor, gate: Tensor | None, kernel: tuple[int, int], padding: tuple[int, int], programs: int
) -> Tensor:
    """Gradients of each client by its filters, and then by its bias, in parts that are yet to be added up."""
    (clients, samples, channels), (outputs, height, width) = x.shape[:3], slope.shape[2:]
    # Each program is a single warp, whose threads add up their sums without waiting for others.
    at_once, each = 32, outputs * kernel[0] * kernel[1]
    rows, tall = (kernel[0], 4) if each <= _SUMS else (1, 1)
    some = max(count for count in range(1, channels + 1) if channels % count == 0 and count * each <= max(_SUMS, each))
    tiles = channels // some * kernel[0] // rows
    pixels = samples * triton.cdiv(height, tall) * width
    parts, share = shares(pixels, at_once, 2 * programs // (clients * tiles))
    found = x.new_empty(parts, clients, outputs * (channels * kernel[0] * kernel[1] + 1), dtype=torch.float32)
    _by_rows[parts, clients, tiles](
        x, slope, slope if gate is None else gate, found, pixels, share, samples, clients,
        *x.shape[2:], outputs, height, width, *kernel, *padding, gate is not None,
        PIXELS=at_once, TALL=tall, ROWS=rows, CHANNELS=some, num_warps=1,
    )  # fmt: skip
    return found
