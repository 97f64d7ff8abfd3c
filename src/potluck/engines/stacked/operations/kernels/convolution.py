"""Triton kernels for small convolutions of many clients at once, of stride 1.

Small ones are summed up directly, one product after another, in float32: every input is read once for all outputs.
Larger ones are a product of matrices, of filters and of the inputs that each pixel sees, which are gathered on the way
and never written to memory. Gradients by filters, over all pixels, are had in the same two ways, dealt out to many
programs, whose sums are added up in a fixed order: the same inputs always give the same bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_FEW_OUTPUTS, _FEW_INPUTS, _SOME_OUTPUTS = 4, 100, 16
"""Up to so many channels of outputs are summed up directly, and of few inputs each, up to so many."""
_QUICK = 150
"""Products that are written out one by one: of more, only a row at a time."""
_FEW_SUMS = 32
"""Up to so many gradients, those by a row of all filters, are summed up directly."""
_PROGRAMS = 528
"""So many programs keep a large GPU busy: four on each of 132 processors."""
_NUMBERS = ["pixels", "share", "samples", "clients"]
"""These change from cohort to cohort: no kernel is compiled anew for them."""


@triton.jit(do_not_specialize=_NUMBERS)
def _direct(
    x, weight, bias, out, weight_step, bias_step, pixels, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    BIASED: tl.constexpr, PIXELS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Outputs of all channels for some pixels of one client."""
    client = tl.program_id(1).to(tl.int64)
    x += client * samples * (C * H * W)
    weight += client * weight_step
    bias += client * bias_step
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < pixels
    sample = pixel // (OH * OW)
    place = pixel % (OH * OW)
    row = place // OW - PH
    column = place % OW - PW
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
                seen = inside
                if PH > 0:
                    seen = seen & (row + kh >= 0) & (row + kh < H)
                if PW > 0:
                    seen = seen & (column + kw >= 0) & (column + kw < W)
                value = tl.load(x + start + (c * (H * W) + kh * W + kw), mask=seen, other=0.0).to(tl.float32)
                more = ()
                for o in tl.static_range(O):
                    factor = tl.load(weight + (o * C + c) * (KH * KW) + kh * KW + kw).to(tl.float32)
                    more = more + (sums[o] + value * factor,)
                sums = more
    out += client * samples * (O * OH * OW)
    target = sample * (O * OH * OW) + place
    for o in tl.static_range(O):
        tl.store(out + target + o * (OH * OW), sums[o].to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_NUMBERS)
def _gathered(
    x, weight, bias, out, weight_step, bias_step, pixels, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    BIASED: tl.constexpr, PIXELS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Outputs of some channels for some pixels of one client, as a product of matrices."""
    client = tl.program_id(1).to(tl.int64)
    K: tl.constexpr = C * KH * KW
    x += client * samples * (C * H * W)
    weight += client * weight_step
    bias += client * bias_step
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    o = tl.program_id(2) * OUTPUTS + tl.arange(0, OUTPUTS)
    inside = pixel < pixels
    sample = pixel // (OH * OW)
    place = pixel % (OH * OW)
    row = place // OW - PH
    column = place % OW - PW
    start = sample * (C * H * W) + row * W + column
    sums = tl.zeros((OUTPUTS, PIXELS), tl.float32)
    for first in range(0, K, INPUTS):
        k = first + tl.arange(0, INPUTS)
        kh = k % (KH * KW) // KW
        kw = k % KW
        seen = (k < K)[:, None] & inside[None, :]
        if PH > 0:
            seen = seen & (row[None, :] + kh[:, None] >= 0) & (row[None, :] + kh[:, None] < H)
        if PW > 0:
            seen = seen & (column[None, :] + kw[:, None] >= 0) & (column[None, :] + kw[:, None] < W)
        offset = k // (KH * KW) * (H * W) + kh * W + kw
        values = tl.load(x + start[None, :] + offset[:, None], mask=seen, other=0.0)
        factors = tl.load(weight + o[:, None] * K + k[None, :], mask=(o < O)[:, None] & (k < K)[None, :], other=0.0)
        sums = tl.dot(factors, values, sums, input_precision=PRECISION)
    if BIASED:
        sums += tl.load(bias + o, mask=o < O, other=0.0).to(tl.float32)[:, None]
    out += client * samples * (O * OH * OW)
    target = (sample * (O * OH * OW) + place)[None, :] + (o * (OH * OW))[:, None]
    tl.store(out + target, sums.to(out.dtype.element_ty), mask=(o < O)[:, None] & inside[None, :])


@triton.jit(do_not_specialize=_NUMBERS)
def _by_weight(
    x, slope, by_weight, by_bias, pixels, share, samples, clients,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    PIXELS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients by some filters of one client and by its bias, over a share of all pixels."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    K: tl.constexpr = C * KH * KW
    BLOCKS: tl.constexpr = (O + OUTPUTS - 1) // OUTPUTS
    k = tl.program_id(2) // BLOCKS * INPUTS + tl.arange(0, INPUTS)
    o = tl.program_id(2) % BLOCKS * OUTPUTS + tl.arange(0, OUTPUTS)
    kh = k % (KH * KW) // KW
    kw = k % KW
    offset = k // (KH * KW) * (H * W) + kh * W + kw
    x += client * samples * (C * H * W)
    slope += client * samples * (O * OH * OW)
    sums = tl.zeros((OUTPUTS, INPUTS), tl.float32)
    total = tl.zeros((OUTPUTS,), tl.float32)
    stop = tl.minimum((part + 1) * share, pixels)
    for first in range(part * share, stop, PIXELS):
        pixel = first + tl.arange(0, PIXELS)
        inside = pixel < stop
        sample = pixel // (OH * OW)
        place = pixel % (OH * OW)
        row = place // OW - PH
        column = place % OW - PW
        seen = (k < K)[:, None] & inside[None, :]
        if PH > 0:
            seen = seen & (row[None, :] + kh[:, None] >= 0) & (row[None, :] + kh[:, None] < H)
        if PW > 0:
            seen = seen & (column[None, :] + kw[:, None] >= 0) & (column[None, :] + kw[:, None] < W)
        start = sample * (C * H * W) + row * W + column
        values = tl.load(x + start[None, :] + offset[:, None], mask=seen, other=0.0)
        where = (sample * (O * OH * OW) + place)[None, :] + (o * (OH * OW))[:, None]
        slopes = tl.load(slope + where, mask=(o < O)[:, None] & inside[None, :], other=0.0)
        sums = tl.dot(slopes, tl.trans(values), sums, input_precision=PRECISION)
        total += tl.sum(slopes.to(tl.float32), 1)
    target = (part * clients + client) * O + o
    tl.store(by_weight + target[:, None] * K + k[None, :], sums, mask=(o < O)[:, None] & (k < K)[None, :])
    if tl.program_id(2) // BLOCKS == 0:
        tl.store(by_bias + target, total, mask=o < O)


@triton.jit(do_not_specialize=_NUMBERS)
def _by_row(
    x, slope, by_weight, by_bias, pixels, share, samples, clients,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Gradients by one row of all filters of one client, and by its bias, over a share of all pixels, summed up."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    c = tl.program_id(2) // KH
    kh = tl.program_id(2) % KH
    x += client * samples * (C * H * W) + c * (H * W) + kh * W
    slope += client * samples * (O * OH * OW)
    sums = ()
    for _ in tl.static_range(O * KW):
        sums = sums + (tl.zeros((PIXELS,), tl.float32),)
    totals = ()
    for _ in tl.static_range(O):
        totals = totals + (tl.zeros((PIXELS,), tl.float32),)
    stop = tl.minimum((part + 1) * share, pixels)
    for first in range(part * share, stop, PIXELS):
        pixel = first + tl.arange(0, PIXELS)
        inside = pixel < stop
        sample = pixel // (OH * OW)
        place = pixel % (OH * OW)
        row = place // OW - PH
        column = place % OW - PW
        start = sample * (C * H * W) + row * W + column
        near = inside
        if PH > 0:
            near = near & (row + kh >= 0) & (row + kh < H)
        values = ()
        for kw in tl.static_range(KW):
            seen = near
            if PW > 0:
                seen = seen & (column + kw >= 0) & (column + kw < W)
            values = values + (tl.load(x + start + kw, mask=seen, other=0.0).to(tl.float32),)
        more = ()
        counted = ()
        for o in tl.static_range(O):
            where = slope + sample * (O * OH * OW) + place + o * (OH * OW)
            steep = tl.load(where, mask=inside, other=0.0).to(tl.float32)
            counted = counted + (totals[o] + steep,)
            for kw in tl.static_range(KW):
                more = more + (sums[o * KW + kw] + values[kw] * steep,)
        sums = more
        totals = counted
    target = (part * clients + client) * O
    for o in tl.static_range(O):
        for kw in tl.static_range(KW):
            tl.store(by_weight + (target + o) * (C * KH * KW) + (c * KH + kh) * KW + kw, tl.sum(sums[o * KW + kw], 0))
    if c + kh == 0:
        for o in tl.static_range(O):
            tl.store(by_bias + target + o, tl.sum(totals[o], 0))


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int]) -> Tensor:
    """The convolution of each client.

    Args:
        x: [clients, samples, channels, height, width].
        weight: [clients, outputs, channels, height, width].
        bias: [clients, outputs], or none.
        padding: Rows and columns of zeros on either side.
    """
    x, weight, biased = x.contiguous(), _dense(weight), bias is not None
    bias = weight if bias is None else _dense(bias)  # any memory, where there is none
    clients, samples, channels, height, width = x.shape
    outputs, kernel = weight.shape[1], weight.shape[3:]
    size = [edge + 2 * pad - span + 1 for edge, pad, span in zip((height, width), padding, kernel, strict=True)]
    out = torch.empty(clients, samples, outputs, *size, dtype=x.dtype, device=x.device)
    pixels = samples * size[0] * size[1]
    given = x, weight, bias, out, weight.stride(0), bias.stride(0), pixels, samples
    shape = channels, height, width, outputs, *size, *kernel, *padding, biased
    few = channels * kernel[0] * kernel[1] <= _FEW_INPUTS
    if outputs <= (_SOME_OUTPUTS if few else _FEW_OUTPUTS):
        # All rows of a filter at once, unless that would take long to compile.
        rows = kernel[0] if outputs * kernel[0] * kernel[1] <= _QUICK else 1
        # One pixel for each of 128 threads in that case: of two, Triton 3.6 has read those beyond the padding as well.
        at_once = 128 if rows == 1 and any(padding) else 256
        _direct[triton.cdiv(pixels, at_once), clients](*given, *shape, PIXELS=at_once, ROWS=rows, num_warps=4)
        return out
    at_once, block, some = 64, _block(outputs), 16 if any(padding) else 32
    _gathered[triton.cdiv(pixels, at_once), clients, triton.cdiv(outputs, block)](
        *given, *shape, PIXELS=at_once, OUTPUTS=block, INPUTS=some, PRECISION=_precision(), num_warps=4, num_stages=3
    )
    return out


def input_gradient(slope: Tensor, weight: Tensor, padding: tuple[int, int]) -> Tensor:
    """The gradient of each client by its input: again a convolution, with the filters the other way round."""
    turned = weight.flip(3, 4).transpose(1, 2)
    height, width = weight.shape[3:]
    return convolve(slope, turned, None, (height - 1 - padding[0], width - 1 - padding[1]))


def weight_gradient(
    x: Tensor, slope: Tensor, kernel: tuple[int, int], padding: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The gradients of each client by its filters, which have a height and a width, and by its bias."""
    x, slope = x.contiguous(), slope.contiguous()
    clients, samples, channels, height, width = x.shape
    outputs, *size = slope.shape[2:]
    pixels = samples * size[0] * size[1]
    inputs = channels * kernel[0] * kernel[1]
    few = outputs * kernel[1] <= _FEW_SUMS
    at_once, block, some = 128 if few else 32, _block(outputs), min(128, triton.next_power_of_2(inputs))
    tiles = channels * kernel[0] if few else triton.cdiv(outputs, block) * triton.cdiv(inputs, some)
    parts = max((2 if few else 1) * _PROGRAMS // (clients * tiles), 1)
    share = triton.cdiv(triton.cdiv(pixels, parts), at_once) * at_once
    parts = triton.cdiv(pixels, share)
    by_weight = torch.empty(parts, clients, outputs, channels, *kernel, dtype=torch.float32, device=x.device)
    by_bias = torch.empty(parts, clients, outputs, dtype=torch.float32, device=x.device)
    given = x, slope, by_weight, by_bias, pixels, share, samples, clients
    shape = channels, height, width, outputs, *size, *kernel, *padding
    if few:
        _by_row[parts, clients, tiles](*given, *shape, PIXELS=at_once, num_warps=4)
    else:
        blocks = {"PIXELS": at_once, "OUTPUTS": block, "INPUTS": some, "PRECISION": _precision()}
        _by_weight[parts, clients, tiles](*given, *shape, **blocks, num_warps=4, num_stages=2)
    return by_weight.sum(0).to(x.dtype), by_bias.sum(0).to(x.dtype)


def _block(outputs: int) -> int:
    """How many channels of outputs a program has; no fewer than a product of matrices needs."""
    return max(int(triton.next_power_of_2(min(outputs, 64))), 16)


def _dense(tensor: Tensor) -> Tensor:
    """A tensor that lies in one piece for each client, though clients may lie apart."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()


def _precision() -> str:
    """How exact products of float32 are: as in all other convolutions."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"
