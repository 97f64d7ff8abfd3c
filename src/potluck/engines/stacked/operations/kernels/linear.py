"""Triton kernels for what surrounds the products of linear layers: biases, ReLU, and their gradients."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from potluck.engines.stacked.operations.kernels.memory import dense

_AT_ONCE = 1024
_ROWS, _COLUMNS = 32, 128


@triton.jit(do_not_specialize=["bias_step", "count", "each"])
def _shift(out, bias, bias_step, count, each, RELU: tl.constexpr, AT_ONCE: tl.constexpr):
    """Some outputs of one client: all of a sample side by side, and one sample after another."""
    client = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = number < count
    out += client * count + number
    value = tl.load(out, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + client * bias_step + number % each, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        value = tl.where(value <= 0, 0.0, value)
    tl.store(out, value.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["samples", "each"])
def _settle(
    slope, gate, out, found, samples, each, GATED: tl.constexpr, SUMMED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Slopes that a ReLU lets through, of some samples and outputs of one client, and what they add up to."""
    client = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = (row < samples)[:, None] & (column < each)[None, :]
    at = client * samples * each + row[:, None] * each + column[None, :]
    steep = tl.load(slope + at, mask=there, other=0.0)
    if GATED:
        steep = tl.where(tl.load(gate + at, mask=there, other=0.0) <= 0, 0.0, steep)
        tl.store(out + at, steep, mask=there)
    if SUMMED:
        place = (tl.program_id(0) * tl.num_programs(2) + client) * each + column
        tl.store(found + place, tl.sum(steep.to(tl.float32), 0), mask=column < each)


def shift(out: Tensor, bias: Tensor, *, relu: bool) -> None:
    """Add biases [clients, outputs] to ``out`` [clients, samples, outputs], and take its ReLU if asked for."""
    clients, samples, each = out.shape
    bias, count = dense(bias), samples * each
    _shift[triton.cdiv(count, _AT_ONCE), clients](
        out, bias, bias.stride(0), count, each, RELU=relu, AT_ONCE=_AT_ONCE
    )  # fmt: skip


def settle(slope: Tensor, gate: Tensor | None, *, summed: bool) -> tuple[Tensor, Tensor | None]:
    """Slopes as far as a ReLU, which gave ``gate``, lets them through; and, if ``summed``, those of biases."""
    slope = slope.contiguous()
    clients, samples, each = slope.shape
    parts = triton.cdiv(samples, _ROWS)
    gated = slope if gate is None else torch.empty_like(slope)
    found = slope.new_empty(parts, clients, each, dtype=torch.float32) if summed else slope
    _settle[parts, triton.cdiv(each, _COLUMNS), clients](
        slope, slope if gate is None else gate.contiguous(), gated, found, samples, each,
        GATED=gate is not None, SUMMED=summed, ROWS=_ROWS, COLUMNS=_COLUMNS,
    )  # fmt: skip
    return gated, found.sum(0).to(slope.dtype) if summed else None
