"""Triton kernels for convolutions of few channels: one product after another, in float32.

Every input is read once for all outputs. Images have their channels first. A slope may come with a gate: what a ReLU
gave, which lets a slope through where it is positive.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.engines.stacked.operations.kernels.places import NUMBERS, place, shares, within

_QUICK = 150
"""Products that are written out one by one: of more, only a row at a time."""
_SUMS = 80
"""Gradients that a thread has at hand: of more, only those by a row at a time."""


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
    PIXELS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Outputs of all channels for some pixels of one client."""
    client = tl.program_id(1).to(tl.int64)
    x += client * samples * (C * H * W)
    gate += client * samples * (C * H * W)
    weight += client * weight_step
    bias += client * bias_step
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < pixels
    sample, row, column = place(pixel, OH, OW)
    target = sample * (O * OH * OW) + row * OW + column
    row -= PH
    column -= PW
    start = sample * (C * H * W) + row * W + column
    sums = ()
    for o in tl.static_range(O):
        if BIASED:
            sums = sums + (tl.zeros((PIXELS,), tl.float32) + tl.load(bias + o).to(tl.float32),)
        else:
            sums = sums + (tl.zeros((PIXELS,), tl.float32),)
    for c in range(C):
        for first in range(0, KH, ROWS):
            for k in tl.static_range(ROWS * KW):
                kh = first + k // KW
                kw = k % KW
                seen = within(within(inside, row + kh, H, PH), column + kw, W, PW)
                where = start + (c * (H * W) + kh * W + kw)
                value = tl.load(x + where, mask=seen, other=0.0)
                value = _through(value, gate, where, seen, GATED).to(tl.float32)
                tap = kh * KW + kw
                more = ()
                for o in tl.static_range(O):
                    if TURNED:
                        factor = tl.load(weight + (c * O + o) * (KH * KW) + (KH * KW - 1) - tap)
                    else:
                        factor = tl.load(weight + (o * C + c) * (KH * KW) + tap)
                    more = more + (sums[o] + value * factor.to(tl.float32),)
                sums = more
    out += client * samples * (O * OH * OW)
    for o in tl.static_range(O):
        value = sums[o]
        if RELU:
            value = tl.where(value <= 0, 0.0, value)
        tl.store(out + target + o * (OH * OW), value.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=NUMBERS)
def _by_rows(
    x, slope, gate, found, pixels, share, samples, clients,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    GATED: tl.constexpr, PIXELS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Gradients by some rows of one channel of all filters of a client, and by its bias, over a share of all pixels."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    c = tl.program_id(2) // (KH // ROWS)
    top = tl.program_id(2) % (KH // ROWS) * ROWS
    x += client * samples * (C * H * W) + c * (H * W) + top * W
    slope += client * samples * (O * OH * OW)
    gate += client * samples * (O * OH * OW)
    sums = ()
    for _ in tl.static_range(O * ROWS * KW):
        sums = sums + (tl.zeros((PIXELS,), tl.float32),)
    totals = ()
    for _ in tl.static_range(O):
        totals = totals + (tl.zeros((PIXELS,), tl.float32),)
    stop = tl.minimum((part + 1) * share, pixels)
    for first in range(part * share, stop, PIXELS):
        pixel = first + tl.arange(0, PIXELS)
        inside = pixel < stop
        sample, row, column = place(pixel, OH, OW)
        where = sample * (O * OH * OW) + row * OW + column
        row -= PH
        column -= PW
        start = sample * (C * H * W) + row * W + column
        values = ()
        for k in tl.static_range(ROWS * KW):
            near = within(inside, row + (top + k // KW), H, PH)
            seen = within(near, column + k % KW, W, PW)
            values = values + (tl.load(x + start + (k // KW * W + k % KW), mask=seen, other=0.0).to(tl.float32),)
        more = ()
        counted = ()
        for o in tl.static_range(O):
            steep = tl.load(slope + where + o * (OH * OW), mask=inside, other=0.0)
            steep = _through(steep, gate, where + o * (OH * OW), inside, GATED).to(tl.float32)
            counted = counted + (totals[o] + steep,)
            for k in tl.static_range(ROWS * KW):
                more = more + (sums[o * (ROWS * KW) + k] + values[k] * steep,)
        sums = more
        totals = counted
    K: tl.constexpr = C * KH * KW
    found += (part * clients + client) * (O * K + O)
    for o in tl.static_range(O):
        for k in tl.static_range(ROWS * KW):
            tl.store(found + o * K + (c * KH + top) * KW + k, tl.sum(sums[o * (ROWS * KW) + k], 0))
    if c + top == 0:
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
    weight, biased = dense(weight), bias is not None
    bias = weight if bias is None else dense(bias)  # any memory, where there is none
    (clients, samples), (outputs, height, width), kernel = x.shape[:2], out.shape[2:], weight.shape[3:]
    pixels = samples * height * width
    # All rows of a filter at once, unless that would take long to compile.
    rows = kernel[0] if outputs * kernel[0] * kernel[1] <= _QUICK else 1
    # One pixel for each of 128 threads in that case: of two, Triton 3.6 has read those beyond the padding as well.
    at_once = 128 if rows == 1 and any(padding) else 256
    _direct[triton.cdiv(pixels, at_once), clients](
        x, x if gate is None else gate, weight, bias, out, weight.stride(0), bias.stride(0), pixels, samples,
        *x.shape[2:], outputs, height, width, *kernel, *padding, gate is not None, turned, biased, relu,
        PIXELS=at_once, ROWS=rows, num_warps=4,
    )  # fmt: skip


def weight_gradient(
    x: Tensor, slope: Tensor, gate: Tensor | None, kernel: tuple[int, int], padding: tuple[int, int], programs: int
) -> Tensor:
    """Gradients of each client by its filters, and then by its bias, in parts that are yet to be added up."""
    (clients, samples, channels), (outputs, height, width) = x.shape[:3], slope.shape[2:]
    # Each program is a single warp, whose threads add up their sums without waiting for others.
    pixels, at_once = samples * height * width, 32
    rows = kernel[0] if outputs * kernel[0] * kernel[1] <= _SUMS else 1
    tiles = channels * kernel[0] // rows
    parts, share = shares(pixels, at_once, 4 * programs // (clients * tiles))
    found = x.new_empty(parts, clients, outputs * (channels * kernel[0] * kernel[1] + 1), dtype=torch.float32)
    _by_rows[parts, clients, tiles](
        x, slope, slope if gate is None else gate, found, pixels, share, samples, clients,
        *x.shape[2:], outputs, height, width, *kernel, *padding, gate is not None,
        PIXELS=at_once, ROWS=rows, num_warps=1,
    )  # fmt: skip
    return found


def dense(tensor: Tensor) -> Tensor:
    """A tensor that lies in one piece for each client, though clients may lie apart."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()
