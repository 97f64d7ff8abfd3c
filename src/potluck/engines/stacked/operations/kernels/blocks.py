"""Triton kernels for a convolution, max-pooling by 2 by 2, and ReLU, in one go.

Of every window only its largest number is written down, and which of the four it was. Gradients are computed from the
slopes of windows: three of four numbers that a convolution alone would read are zeros here, and never read.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.engines.stacked.operations.kernels.memory import arranged, dense, empty, is_last
from potluck.engines.stacked.operations.kernels.places import NUMBERS, place, shares, within
from potluck.engines.stacked.operations.kernels.pooling import larger
from potluck.engines.stacked.operations.kernels.products import power, precision
from potluck.engines.stacked.operations.shapes import CUT, ends

_CUT = tl.constexpr(CUT)
_PROGRAMS = 264
"""So many programs, two on each of 132 processors, share the windows of all clients for gradients by filters."""


@triton.jit
def _seen(number, C: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, LAST: tl.constexpr):
    """Channel, row and column of a number among all that a window sees; neighbours in memory are neighbours here."""
    if LAST:
        c = number % C
        row = number // (C * WIDE)
        column = number // C % WIDE
    else:
        c = number // (HIGH * WIDE)
        row = number // WIDE % HIGH
        column = number % WIDE
    return c, row, column


@triton.jit(do_not_specialize=NUMBERS)
def _pooled(
    x, weight, bias, out, which, bias_step, pixels, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, LAST: tl.constexpr,
    PIXELS: tl.constexpr, OUTPUTS: tl.constexpr, SPAN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Outputs of all channels for some windows of one client."""
    client = tl.program_id(1).to(tl.int64)
    x += client * samples * (C * H * W)
    weight += client * (KH * KW * C * O)
    out += client * samples * (O * OH * OW)
    which += client * samples * (O * OH * OW)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < pixels
    o = tl.arange(0, OUTPUTS)
    sample, row, column = place(pixel, OH, OW)
    row = 2 * row - PH
    column = 2 * column - PW
    COLUMN: tl.constexpr = C if LAST else 1
    start = sample * (C * H * W) + (row * W + column) * COLUMN
    sums = ()
    for _ in tl.static_range(4):
        sums = sums + (tl.zeros((PIXELS, OUTPUTS), tl.float32),)
    if LAST:
        # Each of the four sees numbers of its own; they share the filters.
        c = tl.arange(0, SPAN)
        for kh in range(KH):
            for kw in tl.static_range(KW):
                factors = tl.load(
                    weight + ((kh * KW + kw) * C + c)[:, None] * O + o[None, :],
                    mask=(c < C)[:, None] & (o < O)[None, :], other=0.0,
                )  # fmt: skip
                more = ()
                for k in tl.static_range(4):
                    near = within(within(inside, row + (kh + k // 2), H, PH), column + (kw + k % 2), W, PW)
                    values = tl.load(
                        x + start[:, None] + ((kh + k // 2) * W + kw + k % 2) * C + c[None, :],
                        mask=near[:, None] & (c < C)[None, :], other=0.0,
                    )  # fmt: skip
                    more = more + (tl.dot(values, factors, sums[k], input_precision=PRECISION),)
                sums = more
    else:
        # The four share what they see, and a filter is shifted to each of them.
        SIZE: tl.constexpr = C * (KH + 1) * (KW + 1)
        for first in range(0, SIZE, SPAN):
            number = first + tl.arange(0, SPAN)
            c, kh, kw = _seen(number, C, KH + 1, KW + 1, LAST)
            some = number < SIZE
            near = within(inside[:, None] & some[None, :], row[:, None] + kh[None, :], H, PH)
            near = within(near, column[:, None] + kw[None, :], W, PW)
            values = tl.load(x + start[:, None] + (c * (H * W) + kh * W + kw)[None, :], mask=near, other=0.0)
            more = ()
            for k in tl.static_range(4):
                own_row = kh - k // 2
                own = kw - k % 2
                part = some & (own_row >= 0) & (own_row < KH) & (own >= 0) & (own < KW)
                factors = tl.load(
                    weight + ((own_row * KW + own) * C + c)[:, None] * O + o[None, :],
                    mask=part[:, None] & (o < O)[None, :], other=0.0,
                )  # fmt: skip
                more = more + (tl.dot(values, factors, sums[k], input_precision=PRECISION),)
            sums = more
    most = tl.full((PIXELS, OUTPUTS), float("-inf"), tl.float32)
    position = tl.zeros((PIXELS, OUTPUTS), tl.int32)
    for k in tl.static_range(4):
        replaces = larger(sums[k], most)
        most = tl.where(replaces, sums[k], most)
        position = tl.where(replaces, k, position)
    most += tl.load(bias + client * bias_step + o, mask=o < O, other=0.0).to(tl.float32)[None, :]
    cut = most <= 0
    there = inside[:, None] & (o < O)[None, :]
    target = pixel[:, None] * O + o[None, :]
    tl.store(out + target, tl.where(cut, 0.0, most).to(out.dtype.element_ty), mask=there)
    tl.store(which + target, tl.where(cut, _CUT, position).to(tl.uint8), mask=there)


@triton.jit(do_not_specialize=NUMBERS)
def _by_input(
    slope, which, weight, out, pixels, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, LAST: tl.constexpr,
    TOP: tl.constexpr, ROWS: tl.constexpr, LEFT: tl.constexpr, COLUMNS: tl.constexpr,
    PIXELS: tl.constexpr, CHANNELS: tl.constexpr, SPAN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients by some blocks of 2 by 2 pixels of one client's inputs.

    Such a block is seen by ``ROWS`` times ``COLUMNS`` windows, of which the first is ``TOP`` and ``LEFT`` of it.
    """
    client = tl.program_id(1).to(tl.int64)
    slope += client * samples * (O * OH * OW)
    which += client * samples * (O * OH * OW)
    weight += client * (KH * KW * C * O)
    out += client * samples * (C * H * W)
    WIDE: tl.constexpr = (W + 1) // 2
    HIGH: tl.constexpr = (H + 1) // 2
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < pixels
    sample, row, column = place(pixel, HIGH, WIDE)
    each = tl.arange(0, 4 * CHANNELS)
    c = each % CHANNELS
    right = each // CHANNELS % 2
    down = each // (2 * CHANNELS)
    o = tl.arange(0, SPAN)
    start = ((sample * OH + row + TOP) * OW + column + LEFT) * O
    sums = tl.zeros((PIXELS, 4 * CHANNELS), tl.float32)
    for i in range(ROWS):
        near = inside & (row + (TOP + i) >= 0) & (row + (TOP + i) < OH)
        for j in tl.static_range(COLUMNS):
            seen = near & (column + (LEFT + j) >= 0) & (column + (LEFT + j) < OW)
            seen = seen[:, None] & (o < O)[None, :]
            at = start[:, None] + (i * OW + j) * O + o[None, :]
            steep = tl.load(slope + at, mask=seen, other=0.0)
            position = tl.load(which + at, mask=seen, other=_CUT)
            for k in tl.static_range(4):
                values = tl.where(position == k, steep, 0.0)
                kh = down + (PH - k // 2) - 2 * (TOP + i)
                kw = right + (PW - k % 2 - 2 * (LEFT + j))
                part = (c < C) & (kh >= 0) & (kh < KH) & (kw >= 0) & (kw < KW)
                factors = tl.load(
                    weight + ((kh * KW + kw) * (O * C) + c)[None, :] + (o * C)[:, None],
                    mask=(o < O)[:, None] & part[None, :], other=0.0,
                )  # fmt: skip
                sums = tl.dot(values, factors, sums, input_precision=PRECISION)
    row = 2 * row[:, None] + down[None, :]
    column = 2 * column[:, None] + right[None, :]
    there = inside[:, None] & (c < C)[None, :] & (row < H) & (column < W)
    target = (row * W + column) * (C if LAST else 1) + c[None, :] * (1 if LAST else H * W)
    tl.store(out + (sample * (C * H * W))[:, None] + target, sums.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=NUMBERS)
def _by_filters(
    x, slope, which, found, pixels, share, samples, clients,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, LAST: tl.constexpr,
    PIXELS: tl.constexpr, OUTPUTS: tl.constexpr, SPAN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients by all filters of one client, and by its bias, over a share of all windows.

    Each of the four places in a window has sums of its own over what the window sees, which are yet to be added up.
    """
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    x += client * samples * (C * H * W)
    slope += client * samples * (O * OH * OW)
    which += client * samples * (O * OH * OW)
    SIZE: tl.constexpr = C * (KH + 1) * (KW + 1)
    COLUMN: tl.constexpr = C if LAST else 1
    number = tl.program_id(2) * SPAN + tl.arange(0, SPAN)
    some = number < SIZE
    c, kh, kw = _seen(number, C, KH + 1, KW + 1, LAST)
    offset = (kh * W + kw) * COLUMN + c * (1 if LAST else H * W)
    o = tl.arange(0, OUTPUTS)
    sums = ()
    for _ in tl.static_range(4):
        sums = sums + (tl.zeros((OUTPUTS, SPAN), tl.float32),)
    total = tl.zeros((OUTPUTS,), tl.float32)
    stop = tl.minimum((part + 1) * share, pixels)
    for first in range(part * share, stop, PIXELS):
        pixel = first + tl.arange(0, PIXELS)
        inside = pixel < stop
        there = inside[:, None] & (o < O)[None, :]
        steep = tl.load(slope + pixel[:, None] * O + o[None, :], mask=there, other=0.0)
        position = tl.load(which + pixel[:, None] * O + o[None, :], mask=there, other=_CUT)
        total += tl.sum(tl.where(position < _CUT, steep, 0.0).to(tl.float32), 0)
        sample, row, column = place(pixel, OH, OW)
        row = 2 * row - PH
        column = 2 * column - PW
        start = sample * (C * H * W) + (row * W + column) * COLUMN
        near = within(inside[:, None] & some[None, :], row[:, None] + kh[None, :], H, PH)
        near = within(near, column[:, None] + kw[None, :], W, PW)
        values = tl.load(x + start[:, None] + offset[None, :], mask=near, other=0.0)
        more = ()
        for k in tl.static_range(4):
            turned = tl.trans(tl.where(position == k, steep, 0.0))
            more = more + (tl.dot(turned, values, sums[k], input_precision=PRECISION),)
        sums = more
    K: tl.constexpr = C * KH * KW
    for k in tl.static_range(4):
        here = found + ((part * 4 + k) * clients + client) * (O * K + O)
        own_row = kh - k // 2
        own = kw - k % 2
        mine = some & (own_row >= 0) & (own_row < KH) & (own >= 0) & (own < KW)
        target = (o * K)[:, None] + ((c * KH + own_row) * KW + own)[None, :]
        tl.store(here + target, sums[k], mask=(o < O)[:, None] & mine[None, :])
        if tl.program_id(2) == 0:
            tl.store(here + O * K + o, total if k == 0 else tl.zeros((OUTPUTS,), tl.float32), mask=o < O)


def convolve_and_pool(
    x: Tensor, weight: Tensor, bias: Tensor, padding: tuple[int, int]
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """ReLU of the largest of every 2 by 2 outputs of the convolution of each client, and which of them it was.

    Args:
        x: [clients, samples, channels, height, width].
        weight: [clients, outputs, channels, height, width], of more than eight outputs.
        bias: [clients, outputs].
        padding: Rows and columns of zeros on either side.
    """
    x, kernel = arranged(x), weight.shape[3:]
    (clients, samples), outputs = x.shape[:2], weight.shape[1]
    channels, height, width = x.shape[2:]
    high, wide = (edge // 2 for edge in ends((height, width), kernel, padding))
    out = empty(x, clients, samples, outputs, high, wide)
    which = torch.empty_like(out, dtype=torch.uint8)
    pixels, last, bias = samples * high * wide, is_last(channels), dense(bias)
    at_once, span, stages = (32, power(channels), 2) if last else (128, 16, 1)
    _pooled[triton.cdiv(pixels, at_once), clients](
        x, weight.permute(0, 3, 4, 2, 1).contiguous(), bias, out, which, bias.stride(0), pixels, samples,
        channels, height, width, outputs, high, wide, *kernel, *padding, last,
        PIXELS=at_once, OUTPUTS=power(outputs), SPAN=span, PRECISION=precision(), num_warps=2, num_stages=stages,
    )  # fmt: skip
    return out, which


def pooled_input_gradient(
    slope: Tensor, which: Tensor, weight: Tensor, size: torch.Size, padding: tuple[int, int]
) -> Tensor:
    """The gradient by the inputs of each client, of which one has ``size``, if that by what was pooled is ``slope``."""
    slope, which, kernel = arranged(slope), arranged(which), weight.shape[3:]
    (clients, samples, outputs), (channels, height, width) = slope.shape[:3], size
    out = empty(slope, clients, samples, channels, height, width)
    firsts, counts = zip(*(_windows(span, pad) for span, pad in zip(kernel, padding, strict=True)), strict=True)
    pixels, at_once, last = samples * triton.cdiv(height, 2) * triton.cdiv(width, 2), 128, is_last(channels)
    _by_input[triton.cdiv(pixels, at_once), clients](
        slope, which, weight.permute(0, 3, 4, 1, 2).contiguous(), out, pixels, samples,
        channels, height, width, outputs, *slope.shape[3:], *kernel, *padding, last,
        firsts[0], counts[0], firsts[1], counts[1],
        PIXELS=at_once, CHANNELS=max(triton.next_power_of_2(channels), 4), SPAN=power(outputs), PRECISION=precision(),
        num_warps=4, num_stages=1,
    )  # fmt: skip
    return out


def _windows(span: int, padding: int) -> tuple[int, int]:
    """How far the first window that sees a block of two pixels is from it, and how many do.

    >>> _windows(5, 0), _windows(3, 1)
    ((-2, 3), (-1, 3))
    """
    first = (padding - span + 1) // 2
    return first, (padding + 1) // 2 - first + 1


def pooled_weight_gradient(
    x: Tensor, slope: Tensor, which: Tensor, kernel: tuple[int, int], padding: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The gradients of each client by its filters, which have a height and a width, and by its bias."""
    x, slope, which = arranged(x), arranged(slope), arranged(which)
    (clients, samples, channels), (outputs, high, wide) = x.shape[:3], slope.shape[2:]
    seen = channels * (kernel[0] + 1) * (kernel[1] + 1)
    pixels, (at_once, span) = samples * high * wide, (64, 64) if is_last(channels) else (32, 128)
    tiles = triton.cdiv(seen, span)
    parts, share = shares(pixels, at_once, _PROGRAMS // (clients * tiles))
    found = x.new_empty(4 * parts, clients, outputs * (channels * kernel[0] * kernel[1] + 1), dtype=torch.float32)
    _by_filters[parts, clients, tiles](
        x, slope, which, found, pixels, share, samples, clients,
        *x.shape[2:], outputs, high, wide, *kernel, *padding, is_last(channels),
        PIXELS=at_once, OUTPUTS=power(outputs), SPAN=span, PRECISION=precision(), num_warps=4, num_stages=1,
    )  # fmt: skip
    total = found.sum(0).to(x.dtype)
    return total[:, :-outputs].view(clients, outputs, channels, *kernel), total[:, -outputs:]
