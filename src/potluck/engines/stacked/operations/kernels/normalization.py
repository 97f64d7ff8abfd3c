"""Triton kernels for batch norm: the statistics of a channel over the samples that count, and what follows from them.

A row is a pixel of a sample. A program has some rows of one or more channels of one client. First kernels find the sums
of these rows; second ones put the sums of all rows together, each program for itself, and go on with their own rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.engines.stacked.operations.kernels.memory import channels_last, dense
from potluck.engines.stacked.operations.normalization import Norm

_AT_ONCE = 1024
"""Numbers that a program reads at once."""
_ALTOGETHER = 8192
"""Numbers that a program has, unless these were too many programs."""
_CHANNELS = 16
"""Channels of a program at most, where those of a pixel lie side by side; else it is one."""
_PARTS = tl.constexpr(64)
"""Into so many parts at most are the rows of a client divided."""


@triton.jit
def _found(number, samples, pixels, channels, channel, weight, LAST: tl.constexpr):
    """Where some rows of some channels are, whether there are any, and whether they count."""
    sample, pixel = number // pixels, number % pixels
    inside = sample < samples
    if LAST:
        at = number[:, None] * channels + channel[None, :]
    else:
        at = (sample * channels * pixels + pixel)[:, None] + (channel * pixels)[None, :]
    counts = tl.load(weight + sample, mask=inside, other=0.0).to(tl.float32)
    return at, inside[:, None] & (channel < channels)[None, :], counts[:, None]


@triton.jit
def _parts(parts, kind: tl.constexpr, client, channel, channels):
    """Something that was found in each part of the rows, [parts, channels]."""
    number = tl.arange(0, _PARTS)
    known = (number < tl.num_programs(1))[:, None] & (channel < channels)[None, :]
    row = (kind * tl.num_programs(1) + number) * tl.num_programs(2) + client
    return tl.load(parts + row[:, None] * channels + channel[None, :], mask=known, other=0.0)


@triton.jit
def _keep(parts, kind: tl.constexpr, client, channel, channels, value):
    """Note something that was found in this part."""
    row = (kind * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(2) + client
    tl.store(parts + row * channels + channel, value, mask=channel < channels)


@triton.jit(do_not_specialize=["weight_step", "samples", "pixels", "channels", "each"])
def _moments(
    x, weight, parts, weight_step, samples, pixels, channels, each,
    LAST: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """How many rows of a part count, their mean, and their squared distances from it."""
    client = tl.program_id(2).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    x += client * samples * pixels * channels
    weight += client * weight_step
    begin = tl.program_id(1) * each
    total = tl.zeros([ROWS, CHANNELS], tl.float32)
    count = tl.zeros([ROWS, 1], tl.float32)
    for start in range(begin, begin + each, ROWS):
        number = start + tl.arange(0, ROWS)
        at, there, counts = _found(number, samples, pixels, channels, channel, weight, LAST)
        total += tl.load(x + at, mask=there, other=0.0).to(tl.float32) * counts
        count += counts
    counted = tl.sum(count, 0)
    mean = tl.sum(total, 0) / tl.maximum(counted, 1.0)
    squares = tl.zeros([ROWS, CHANNELS], tl.float32)
    for start in range(begin, begin + each, ROWS):
        number = start + tl.arange(0, ROWS)
        at, there, counts = _found(number, samples, pixels, channels, channel, weight, LAST)
        apart = tl.load(x + at, mask=there, other=0.0).to(tl.float32) - mean[None, :]
        squares += apart * apart * counts
    _keep(parts, 0, client, channel, channels, counted + tl.zeros([CHANNELS], tl.float32))
    _keep(parts, 1, client, channel, channels, mean)
    _keep(parts, 2, client, channel, channels, tl.sum(squares, 0))


@triton.jit(do_not_specialize=["weight_step", "gamma_step", "beta_step", "samples", "pixels", "channels", "each"])
def _normalize(
    x, weight, gamma, beta, parts, out, mean, spread, scale, weight_step, gamma_step, beta_step, samples, pixels,
    channels, each, eps, SCALED: tl.constexpr, SHIFTED: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(2).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    known = channel < channels
    counts_of, means_of = _parts(parts, 0, client, channel, channels), _parts(parts, 1, client, channel, channels)
    counted = tl.sum(counts_of, 0)
    centre = tl.sum(counts_of * means_of, 0) / tl.maximum(counted, 1.0)
    between = means_of - centre[None, :]
    squares = tl.sum(_parts(parts, 2, client, channel, channels) + counts_of * between * between, 0)
    factor = 1.0 / tl.sqrt(squares / tl.maximum(counted, 1.0) + eps)
    if tl.program_id(1) == 0:
        place = client * channels + channel
        tl.store(mean + place, centre, mask=known)
        tl.store(spread + place, squares / tl.maximum(counted - 1.0, 1.0), mask=known)
        tl.store(scale + place, factor, mask=known)
    shift = tl.zeros([CHANNELS], tl.float32)
    if SCALED:
        factor *= tl.load(gamma + client * gamma_step + channel, mask=known, other=0.0).to(tl.float32)
    if SHIFTED:
        shift += tl.load(beta + client * beta_step + channel, mask=known, other=0.0).to(tl.float32)
    x += client * samples * pixels * channels
    out += client * samples * pixels * channels
    weight += client * weight_step
    begin = tl.program_id(1) * each
    for start in range(begin, begin + each, ROWS):
        number = start + tl.arange(0, ROWS)
        at, there, _ = _found(number, samples, pixels, channels, channel, weight, LAST)
        apart = tl.load(x + at, mask=there, other=0.0).to(tl.float32) - centre[None, :]
        value = apart * factor[None, :] + shift[None, :]
        tl.store(out + at, value.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=["weight_step", "samples", "pixels", "channels", "each"])
def _leanings(
    slope, x, weight, mean, scale, parts, weight_step, samples, pixels, channels, each,
    LAST: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """How many rows of a part count, what their slopes add up to, and how these go along with the numbers."""
    client = tl.program_id(2).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    known = channel < channels
    centre = tl.load(mean + client * channels + channel, mask=known, other=0.0)
    factor = tl.load(scale + client * channels + channel, mask=known, other=0.0)
    slope += client * samples * pixels * channels
    x += client * samples * pixels * channels
    weight += client * weight_step
    begin = tl.program_id(1) * each
    steepness = tl.zeros([ROWS, CHANNELS], tl.float32)
    leaning = tl.zeros([ROWS, CHANNELS], tl.float32)
    count = tl.zeros([ROWS, 1], tl.float32)
    for start in range(begin, begin + each, ROWS):
        number = start + tl.arange(0, ROWS)
        at, there, counts = _found(number, samples, pixels, channels, channel, weight, LAST)
        steep = tl.load(slope + at, mask=there, other=0.0).to(tl.float32)
        apart = (tl.load(x + at, mask=there, other=0.0).to(tl.float32) - centre[None, :]) * factor[None, :]
        steepness += steep
        leaning += steep * apart
        count += counts
    _keep(parts, 0, client, channel, channels, tl.sum(count, 0) + tl.zeros([CHANNELS], tl.float32))
    _keep(parts, 1, client, channel, channels, tl.sum(steepness, 0))
    _keep(parts, 2, client, channel, channels, tl.sum(leaning, 0))


@triton.jit(do_not_specialize=["weight_step", "gamma_step", "samples", "pixels", "channels", "each"])
def _pull_back(
    slope, x, weight, gamma, mean, scale, parts, by_x, by_gamma, by_beta, weight_step, gamma_step, samples, pixels,
    channels, each, SCALED: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(2).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    known = channel < channels
    place = client * channels + channel
    centre = tl.load(mean + place, mask=known, other=0.0)
    factor = tl.load(scale + place, mask=known, other=0.0)
    counted = tl.maximum(tl.sum(_parts(parts, 0, client, channel, channels), 0), 1.0)
    steepness = tl.sum(_parts(parts, 1, client, channel, channels), 0)
    leaning = tl.sum(_parts(parts, 2, client, channel, channels), 0)
    if tl.program_id(1) == 0:
        tl.store(by_beta + place, steepness, mask=known)
        tl.store(by_gamma + place, leaning, mask=known)
    steepness /= counted
    leaning /= counted
    outer = factor
    if SCALED:
        outer *= tl.load(gamma + client * gamma_step + channel, mask=known, other=0.0).to(tl.float32)
    slope += client * samples * pixels * channels
    x += client * samples * pixels * channels
    by_x += client * samples * pixels * channels
    weight += client * weight_step
    begin = tl.program_id(1) * each
    for start in range(begin, begin + each, ROWS):
        number = start + tl.arange(0, ROWS)
        at, there, counts = _found(number, samples, pixels, channels, channel, weight, LAST)
        steep = tl.load(slope + at, mask=there, other=0.0).to(tl.float32)
        apart = (tl.load(x + at, mask=there, other=0.0).to(tl.float32) - centre[None, :]) * factor[None, :]
        value = outer[None, :] * (steep - counts * (steepness[None, :] + apart * leaning[None, :]))
        tl.store(by_x + at, value.to(by_x.dtype.element_ty), mask=there)


class _Work:
    """How images [clients, samples, channels, ...] are divided among programs."""

    def __init__(self, x: Tensor) -> None:
        self.clients, self.samples, self.channels = x.shape[:3]
        self.pixels = x.shape[3:].numel()
        self.last = self.pixels == 1 or (not x.is_contiguous() and x.movedim(2, -1).is_contiguous())
        at_once = min(_CHANNELS, triton.next_power_of_2(self.channels)) if self.last else 1
        self.tile = {"LAST": self.last, "ROWS": _AT_ONCE // at_once, "CHANNELS": at_once}
        rows, step = self.samples * self.pixels, self.tile["ROWS"]
        # A multiple of what is read at once: no part begins within what another reads.
        wanted = min(max(_ALTOGETHER // at_once, triton.cdiv(rows, _PARTS.value)), max(rows, 1))
        self.each = triton.cdiv(wanted, step) * step
        self.grid = triton.cdiv(self.channels, at_once), max(triton.cdiv(rows, self.each), 1), self.clients
        self.sizes = self.samples, self.pixels, self.channels, self.each

    def arranged(self, x: Tensor) -> Tensor:
        """Images as they lie in memory here."""
        return channels_last(x, 2) if self.last else x.contiguous()

    def found(self, x: Tensor, kinds: int) -> tuple[Tensor, ...]:
        """Memory for some numbers of each channel of each client."""
        return x.new_empty(kinds, self.clients, self.channels, dtype=torch.float32).unbind()

    def parts(self, x: Tensor) -> Tensor:
        """Memory for three numbers of each part of each channel of each client."""
        return x.new_empty(3, self.grid[1], self.clients, self.channels, dtype=torch.float32)


def normalize(x: Tensor, weight: Tensor, gamma: Tensor | None, beta: Tensor | None, *, eps: float) -> Norm:
    """Batch norm of images [clients, samples, channels, ...], over those samples of which the weight is not 0."""
    work = _Work(x)
    x, weight = work.arranged(x), dense(weight)
    out, parts = torch.empty_like(x), work.parts(x)
    mean, spread, scale = work.found(x, 3)
    by, to = (mean if one is None else dense(one) for one in (gamma, beta))
    _moments[work.grid](x, weight, parts, weight.stride(0), *work.sizes, **work.tile)
    _normalize[work.grid](
        x, weight, by, to, parts, out, mean, spread, scale, weight.stride(0), by.stride(0), to.stride(0), *work.sizes,
        eps, SCALED=gamma is not None, SHIFTED=beta is not None, **work.tile,
    )  # fmt: skip
    return out, mean, spread, scale


def normalize_gradient(
    slope: Tensor, x: Tensor, weight: Tensor, gamma: Tensor | None, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by the images, and by what scales and shifts them [clients, channels]."""
    work = _Work(x)
    x, slope, weight = work.arranged(x), work.arranged(slope), dense(weight)
    mean, scale = mean.contiguous(), scale.contiguous()
    by_x, parts = torch.empty_like(x), work.parts(x)
    by_gamma, by_beta = work.found(x, 2)
    by = mean if gamma is None else dense(gamma)
    _leanings[work.grid](slope, x, weight, mean, scale, parts, weight.stride(0), *work.sizes, **work.tile)
    _pull_back[work.grid](
        slope, x, weight, by, mean, scale, parts, by_x, by_gamma, by_beta, weight.stride(0), by.stride(0), *work.sizes,
        SCALED=gamma is not None, **work.tile,
    )  # fmt: skip
    return by_x, by_gamma, by_beta
