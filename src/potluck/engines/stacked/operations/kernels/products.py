"""Triton kernels for convolutions as products of matrices: of filters, and of the inputs that each pixel sees.

These are gathered on the way and never written to memory. A row of a filter is a row of a matrix; where channels come
last, all that a pixel sees in one row of the image lies in one piece.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.engines.stacked.operations.kernels.memory import dense, is_last
from potluck.engines.stacked.operations.kernels.places import NUMBERS, place, shares, within

_LEAST = 16
"""Numbers along each side of a product of matrices, at least."""


@triton.jit
def _piece(number, LAST: tl.constexpr, C: tl.constexpr, KW: tl.constexpr):
    """Channel and column of a number within a row of a filter; neighbours in memory are neighbours here."""
    if LAST:
        c = number % C
        kw = number // C
    else:
        c = number // KW
        kw = number % KW
    return c, kw


@triton.jit(do_not_specialize=NUMBERS)
def _product(
    x, weight, bias, out, bias_step, pixels, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    X_LAST: tl.constexpr, OUT_LAST: tl.constexpr, TURNED: tl.constexpr, BIASED: tl.constexpr,
    PIXELS: tl.constexpr, OUTPUTS: tl.constexpr, SPAN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Outputs of all channels for some pixels of one client."""
    client = tl.program_id(1).to(tl.int64)
    x += client * samples * (C * H * W)
    weight += client * (KH * KW * C * O)
    out += client * samples * (O * OH * OW)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    o = tl.arange(0, OUTPUTS)
    inside = pixel < pixels
    sample, row, column = place(pixel, OH, OW)
    # How far apart in memory two channels are, and two columns.
    OUT_CHANNEL: tl.constexpr = 1 if OUT_LAST else OH * OW
    OUT_COLUMN: tl.constexpr = O if OUT_LAST else 1
    CHANNEL: tl.constexpr = 1 if X_LAST else H * W
    COLUMN: tl.constexpr = C if X_LAST else 1
    target = sample * (O * OH * OW) + (row * OW + column) * OUT_COLUMN
    out += target[:, None] + (o * OUT_CHANNEL)[None, :]
    row -= PH
    column -= PW
    start = sample * (C * H * W) + (row * W + column) * COLUMN
    sums = tl.zeros((PIXELS, OUTPUTS), tl.float32)
    for kh in range(KH):
        near = within(inside, row + kh, H, PH)
        for step in tl.static_range((KW * C + SPAN - 1) // SPAN):
            number = step * SPAN + tl.arange(0, SPAN)
            if SPAN == C:  # then they are the channels of one column
                c = tl.arange(0, SPAN)
                kw = tl.full((SPAN,), step, tl.int32)
            else:
                c, kw = _piece(number, X_LAST, C, KW)
            some = number < KW * C
            seen = within(near[:, None] & some[None, :], column[:, None] + kw[None, :], W, PW)
            values = tl.load(
                x + start[:, None] + ((kh * W + kw) * COLUMN + c * CHANNEL)[None, :],
                mask=seen, other=0.0,
            )  # fmt: skip
            tap = (KH * KW - 1 - kh * KW - kw) if TURNED else (kh * KW + kw)
            factors = tl.load(
                weight + ((tap * C + c) * O)[:, None] + o[None, :], mask=some[:, None] & (o < O)[None, :], other=0.0
            )
            sums = tl.dot(values, factors, sums, input_precision=PRECISION)
    if BIASED:
        sums += tl.load(bias + client * bias_step + o, mask=o < O, other=0.0).to(tl.float32)[None, :]
    tl.store(out, sums.to(out.dtype.element_ty), mask=inside[:, None] & (o < O)[None, :])


@triton.jit(do_not_specialize=NUMBERS)
def _blocks(
    x, weight, out, pixels, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, TURNED: tl.constexpr,
    PIXELS: tl.constexpr, SPAN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Outputs of up to four channels, for some blocks of 2 by 2 pixels of one client.

    Of so few channels a product would compute four times as many. Here four pixels share what they see, and a filter
    is shifted to each of them. Inputs have their channels last, outputs first.
    """
    client = tl.program_id(1).to(tl.int64)
    x += client * samples * (C * H * W)
    weight += client * (KH * KW * C * O)
    out += client * samples * (O * OH * OW)
    WIDE: tl.constexpr = (OW + 1) // 2
    HIGH: tl.constexpr = (OH + 1) // 2
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < pixels
    sample, row, column = place(pixel, HIGH, WIDE)
    row = 2 * row
    column = 2 * column
    each = tl.arange(0, 16)
    o = each % 4
    right = each // 4 % 2
    down = each // 8
    target = (sample * (O * OH * OW) + row * OW + column)[:, None] + (o * (OH * OW) + down * OW + right)[None, :]
    there = inside[:, None] & (o < O)[None, :]
    there = there & (row[:, None] + down[None, :] < OH) & (column[:, None] + right[None, :] < OW)
    row -= PH
    column -= PW
    start = sample * (C * H * W) + (row * W + column) * C
    c = tl.arange(0, SPAN)
    sums = tl.zeros((PIXELS, 16), tl.float32)
    for kh in range(KH + 1):
        # Of blocks that reach beyond an odd edge, too.
        near = inside & (row + kh >= 0) & (row + kh < H)
        for kw in tl.static_range(KW + 1):
            seen = near & (column + kw >= 0) & (column + kw < W)
            values = tl.load(
                x + start[:, None] + (kh * W + kw) * C + c[None, :], mask=seen[:, None] & (c < C)[None, :], other=0.0
            )
            own_row = kh - down
            own = kw - right
            part = (o < O) & (own_row >= 0) & (own_row < KH) & (own >= 0) & (own < KW)
            tap = (KH * KW - 1 - own_row * KW - own) if TURNED else (own_row * KW + own)
            factors = tl.load(
                weight + (tap * (C * O) + o)[None, :] + (c * O)[:, None], mask=(c < C)[:, None] & part[None, :],
                other=0.0,
            )  # fmt: skip
            sums = tl.dot(values, factors, sums, input_precision=PRECISION)
    tl.store(out + target, sums.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=NUMBERS)
def _by_weight(
    x, slope, found, pixels, share, samples, clients,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    X_LAST: tl.constexpr, SLOPE_LAST: tl.constexpr,
    PIXELS: tl.constexpr, OUTPUTS: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients by some rows of all filters of one client, and by its bias, over a share of all pixels."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    top = tl.program_id(2) * ROWS
    x += client * samples * (C * H * W)
    slope += client * samples * (O * OH * OW)
    number = tl.arange(0, SPAN)
    o = tl.arange(0, OUTPUTS)
    some = number < KW * C
    c, kw = _piece(number, X_LAST, C, KW)
    # How far apart in memory two channels are, and two columns.
    COLUMN: tl.constexpr = C if X_LAST else 1
    SLOPE_CHANNEL: tl.constexpr = 1 if SLOPE_LAST else OH * OW
    SLOPE_COLUMN: tl.constexpr = O if SLOPE_LAST else 1
    offset = number if X_LAST else c * (H * W) + kw
    sums = ()
    for _ in tl.static_range(ROWS):
        sums = sums + (tl.zeros((OUTPUTS, SPAN), tl.float32),)
    total = tl.zeros((OUTPUTS,), tl.float32)
    stop = tl.minimum((part + 1) * share, pixels)
    for first in range(part * share, stop, PIXELS):
        pixel = first + tl.arange(0, PIXELS)
        inside = pixel < stop
        sample, row, column = place(pixel, OH, OW)
        where = sample * (O * OH * OW) + (row * OW + column) * SLOPE_COLUMN
        slopes = tl.load(
            slope + where[:, None] + (o * SLOPE_CHANNEL)[None, :], mask=inside[:, None] & (o < O)[None, :], other=0.0
        )
        total += tl.sum(slopes.to(tl.float32), 0)
        row -= PH
        column -= PW
        start = sample * (C * H * W) + (row * W + column) * COLUMN
        turned = tl.trans(slopes)
        more = ()
        for extra in tl.static_range(ROWS):
            kh = top + extra
            near = within(inside, row + kh, H, PH)
            seen = within(near[:, None] & some[None, :], column[:, None] + kw[None, :], W, PW)
            values = tl.load(x + start[:, None] + (kh * W * COLUMN + offset)[None, :], mask=seen, other=0.0)
            more = more + (tl.dot(turned, values, sums[extra], input_precision=PRECISION),)
        sums = more
    K: tl.constexpr = C * KH * KW
    found += (part * clients + client) * (O * K + O)
    there = (o < O)[:, None] & some[None, :]
    for extra in tl.static_range(ROWS):
        filter_place = (c * KH + top + extra) * KW + kw
        tl.store(found + (o * K)[:, None] + filter_place[None, :], sums[extra], mask=there)
    if top == 0:
        tl.store(found + O * K + o, total, mask=o < O)


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, padding: tuple[int, int], *, turned: bool = False
) -> None:
    """Write the convolution of each client; ``turned`` is by filters the other way round, with their ends exchanged."""
    # By taps, then channels of inputs, then those of outputs.
    weight = weight.permute(0, 3, 4, 1, 2).contiguous() if turned else weight.permute(0, 3, 4, 2, 1).contiguous()
    (clients, samples), (channels, height, width), (outputs, high, wide) = x.shape[:2], x.shape[2:], out.shape[2:]
    sizes = channels, height, width, outputs, high, wide, *weight.shape[1:3], *padding
    common = {"TURNED": turned, "PRECISION": precision()}
    if is_last(channels) and outputs <= 4 and bias is None:
        pixels, at_once, span = samples * triton.cdiv(high, 2) * triton.cdiv(wide, 2), 128, power(channels)
        _blocks[triton.cdiv(pixels, at_once), clients](
            x, weight, out, pixels, samples, *sizes, **common, PIXELS=at_once, SPAN=span, num_warps=4, num_stages=2
        )
        return
    pixels, at_once, last = samples * high * wide, 256, is_last(channels)
    span = channels if last and channels == power(channels) else _LEAST
    biased, step = (
        (weight, 0) if bias is None else (dense(bias), dense(bias).stride(0))
    )  # any memory, where there is none
    _product[triton.cdiv(pixels, at_once), clients](
        x, weight, biased, out, step, pixels, samples, *sizes, **common,
        X_LAST=last, OUT_LAST=is_last(outputs), BIASED=bias is not None,
        PIXELS=at_once, OUTPUTS=power(outputs), SPAN=span, num_warps=4, num_stages=1,
    )  # fmt: skip


def weight_gradient(
    x: Tensor, slope: Tensor, kernel: tuple[int, int], padding: tuple[int, int], programs: int
) -> Tensor:
    """Gradients of each client by its filters, and then by its bias, in parts that are yet to be added up."""
    (clients, samples, channels), (outputs, height, width) = x.shape[:3], slope.shape[2:]
    pixels, span = samples * height * width, power(kernel[1] * channels)
    # Of small rows all at once, which all need the same slopes.
    rows, at_once = (kernel[0], 256) if span * power(outputs) <= 256 else (1, 64)
    tiles = kernel[0] // rows
    parts, share = shares(pixels, at_once, programs // (clients * tiles))
    found = x.new_empty(parts, clients, outputs * (channels * kernel[0] * kernel[1] + 1), dtype=torch.float32)
    _by_weight[parts, clients, tiles](
        x, slope, found, pixels, share, samples, clients,
        *x.shape[2:], outputs, height, width, *kernel, *padding,
        X_LAST=is_last(channels), SLOPE_LAST=is_last(outputs), PIXELS=at_once, OUTPUTS=power(outputs), SPAN=span,
        ROWS=rows, PRECISION=precision(), num_warps=4, num_stages=2,
    )  # fmt: skip
    return found


def power(count: int) -> int:
    """The power of two that has room for so many numbers, and is no smaller than a product of matrices needs."""
    return max(int(triton.next_power_of_2(count)), _LEAST)


def precision() -> str:
    """How exact products of float32 are: as in all other convolutions."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"
