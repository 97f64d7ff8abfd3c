"""Triton kernels for batch norm: the statistics of a channel over the samples that count, and what follows from them.

A program has one or some channels of one client, and goes over all their numbers as often as it needs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.engines.stacked.operations.kernels.memory import dense
from potluck.engines.stacked.operations.normalization import Norm

_SIDE_BY_SIDE = 64, 32
"""Rows and channels at once where the channels of a pixel lie side by side; a row is a pixel of a sample."""
_APART = 1024
"""Rows at once of one channel, where its pixels lie side by side."""


@triton.jit
def _row(number, samples, pixels, channels, channel, weight, LAST: tl.constexpr):
    """Where some rows of some channels are, whether there are any, and whether they count."""
    sample, pixel = number // pixels, number % pixels
    inside = sample < samples
    if LAST:
        at = number[:, None] * channels + channel[None, :]
    else:
        at = (sample * channels * pixels + pixel)[:, None] + (channel * pixels)[None, :]
    counts = tl.load(weight + sample, mask=inside, other=0.0).to(tl.float32)
    return at, inside[:, None] & (channel < channels)[None, :], counts[:, None]


@triton.jit(do_not_specialize=["weight_step", "gamma_step", "beta_step", "samples", "pixels", "channels"])
def _normalize(
    x, weight, gamma, beta, out, mean, spread, scale, weight_step, gamma_step, beta_step, samples, pixels, channels,
    eps, SCALED: tl.constexpr, SHIFTED: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    known = channel < channels
    rows = samples * pixels
    x += client * rows * channels
    out += client * rows * channels
    weight += client * weight_step
    total = tl.zeros([CHANNELS], tl.float32)
    count = tl.zeros([1], tl.float32)
    for start in range(0, rows, ROWS):
        at, there, counts = _row(start + tl.arange(0, ROWS), samples, pixels, channels, channel, weight, LAST)
        total += tl.sum(tl.load(x + at, mask=there, other=0.0).to(tl.float32) * counts, 0)
        count += tl.sum(counts, 0)
    centre = total / tl.maximum(count, 1.0)
    squares = tl.zeros([CHANNELS], tl.float32)
    for start in range(0, rows, ROWS):
        at, there, counts = _row(start + tl.arange(0, ROWS), samples, pixels, channels, channel, weight, LAST)
        apart = tl.load(x + at, mask=there, other=0.0).to(tl.float32) - centre[None, :]
        squares += tl.sum(apart * apart * counts, 0)
    factor = 1.0 / tl.sqrt(squares / tl.maximum(count, 1.0) + eps)
    place = client * channels + channel
    tl.store(mean + place, centre, mask=known)
    tl.store(spread + place, squares / tl.maximum(count - 1.0, 1.0), mask=known)
    tl.store(scale + place, factor, mask=known)
    shift = tl.zeros([CHANNELS], tl.float32)
    if SCALED:
        factor *= tl.load(gamma + client * gamma_step + channel, mask=known, other=0.0).to(tl.float32)
    if SHIFTED:
        shift += tl.load(beta + client * beta_step + channel, mask=known, other=0.0).to(tl.float32)
    for start in range(0, rows, ROWS):
        at, there, counts = _row(start + tl.arange(0, ROWS), samples, pixels, channels, channel, weight, LAST)
        apart = tl.load(x + at, mask=there, other=0.0).to(tl.float32) - centre[None, :]
        value = apart * factor[None, :] + shift[None, :]
        tl.store(out + at, value.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=["weight_step", "gamma_step", "samples", "pixels", "channels"])
def _pull_back(
    slope, x, weight, gamma, mean, scale, by_x, by_gamma, by_beta, weight_step, gamma_step, samples, pixels, channels,
    SCALED: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    known = channel < channels
    rows = samples * pixels
    slope += client * rows * channels
    x += client * rows * channels
    by_x += client * rows * channels
    weight += client * weight_step
    place = client * channels + channel
    centre = tl.load(mean + place, mask=known, other=0.0)
    factor = tl.load(scale + place, mask=known, other=0.0)
    steepness = tl.zeros([CHANNELS], tl.float32)
    leaning = tl.zeros([CHANNELS], tl.float32)
    count = tl.zeros([1], tl.float32)
    for start in range(0, rows, ROWS):
        at, there, counts = _row(start + tl.arange(0, ROWS), samples, pixels, channels, channel, weight, LAST)
        steep = tl.load(slope + at, mask=there, other=0.0).to(tl.float32)
        apart = (tl.load(x + at, mask=there, other=0.0).to(tl.float32) - centre[None, :]) * factor[None, :]
        steepness += tl.sum(steep, 0)
        leaning += tl.sum(steep * apart, 0)
        count += tl.sum(counts, 0)
    tl.store(by_gamma + place, leaning, mask=known)
    tl.store(by_beta + place, steepness, mask=known)
    count = tl.maximum(count, 1.0)
    steepness /= count
    leaning /= count
    outer = factor
    if SCALED:
        outer *= tl.load(gamma + client * gamma_step + channel, mask=known, other=0.0).to(tl.float32)
    for start in range(0, rows, ROWS):
        at, there, counts = _row(start + tl.arange(0, ROWS), samples, pixels, channels, channel, weight, LAST)
        steep = tl.load(slope + at, mask=there, other=0.0).to(tl.float32)
        apart = (tl.load(x + at, mask=there, other=0.0).to(tl.float32) - centre[None, :]) * factor[None, :]
        value = outer[None, :] * (steep - counts * (steepness[None, :] + apart * leaning[None, :]))
        tl.store(by_x + at, value.to(by_x.dtype.element_ty), mask=there)


def _arranged(x: Tensor, last: bool) -> Tensor:
    return x.movedim(2, -1).contiguous().movedim(-1, 2) if last else x.contiguous()


def _are_last(x: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side."""
    return x.movedim(2, -1).is_contiguous()


def _tiles(channels: int, last: bool) -> tuple[int, int]:
    """How many rows and channels a program takes at once."""
    rows, most = _SIDE_BY_SIDE
    return (rows, min(most, triton.next_power_of_2(channels))) if last else (_APART, 1)


def normalize(x: Tensor, weight: Tensor, gamma: Tensor | None, beta: Tensor | None, *, eps: float) -> Norm:
    """Batch norm of images [clients, samples, channels, ...], over those samples of which the weight is not 0."""
    last = _are_last(x)
    x, weight = _arranged(x, last), dense(weight)
    clients, samples, channels = x.shape[:3]
    pixels = x.shape[3:].numel()
    out = torch.empty_like(x)
    mean, spread, scale = x.new_empty(3, clients, channels, dtype=torch.float32).unbind()
    by, to = (mean if one is None else dense(one) for one in (gamma, beta))
    rows, at_once = _tiles(channels, last)
    _normalize[triton.cdiv(channels, at_once), clients](
        x, weight, by, to, out, mean, spread, scale, weight.stride(0), by.stride(0), to.stride(0), samples, pixels,
        channels, eps, SCALED=gamma is not None, SHIFTED=beta is not None, LAST=last, ROWS=rows, CHANNELS=at_once,
    )  # fmt: skip
    return out, mean, spread, scale


def normalize_gradient(
    slope: Tensor, x: Tensor, weight: Tensor, gamma: Tensor | None, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by the images, and by what scales and shifts them [clients, channels]."""
    last = _are_last(x)
    x, slope, weight = _arranged(x, last), _arranged(slope, last), dense(weight)
    mean, scale = mean.contiguous(), scale.contiguous()
    clients, samples, channels = x.shape[:3]
    pixels = x.shape[3:].numel()
    by_x = torch.empty_like(x)
    by_gamma, by_beta = x.new_empty(2, clients, channels, dtype=torch.float32).unbind()
    by = mean if gamma is None else dense(gamma)
    rows, at_once = _tiles(channels, last)
    _pull_back[triton.cdiv(channels, at_once), clients](
        slope, x, weight, by, mean, scale, by_x, by_gamma, by_beta, weight.stride(0), by.stride(0), samples, pixels,
        channels, SCALED=gamma is not None, LAST=last, ROWS=rows, CHANNELS=at_once,
    )  # fmt: skip
    return by_x, by_gamma, by_beta
