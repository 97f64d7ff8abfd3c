"""Triton kernels for the cross-entropy of each sample, and its gradient."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_AT_ONCE = 2048
"""Numbers of a program."""
_IGNORED = tl.constexpr(-100)
"""The label that PyTorch leaves out."""


@triton.jit
def _scores(logits, label, samples, CLASSES: tl.constexpr, SAMPLES: tl.constexpr, SPAN: tl.constexpr):
    """Scores of some samples beside their largest, the logarithm of what their exponentials add up to, and labels."""
    sample = tl.program_id(0) * SAMPLES + tl.arange(0, SAMPLES)
    c = tl.arange(0, SPAN)
    inside = sample < samples
    there = inside[:, None] & (c < CLASSES)[None, :]
    scores = tl.load(logits + sample[:, None] * CLASSES + c[None, :], mask=there, other=float("-inf"))
    scores = tl.where(inside[:, None], scores, 0.0)
    own = tl.load(label + sample, mask=inside, other=_IGNORED)
    scores -= tl.max(scores, 1)[:, None]
    total = tl.log(tl.sum(tl.exp(scores), 1))
    return sample, inside, there, scores, total, own, c[None, :] == own[:, None]


@triton.jit(do_not_specialize=["samples"])
def _entropy(logits, label, out, samples, CLASSES: tl.constexpr, SAMPLES: tl.constexpr, SPAN: tl.constexpr):
    sample, inside, _, scores, total, own, hit = _scores(logits, label, samples, CLASSES, SAMPLES, SPAN)
    loss = total - tl.sum(tl.where(hit, scores, 0.0), 1)
    loss = tl.where((own < 0) | (own >= CLASSES), float("nan"), loss)  # there is no such class
    tl.store(out + sample, tl.where(own == _IGNORED, 0.0, loss), mask=inside)


@triton.jit(do_not_specialize=["samples"])
def _by_logits(
    logits, label, slope, out, samples, CLASSES: tl.constexpr, SAMPLES: tl.constexpr, SPAN: tl.constexpr
):  # fmt: skip
    sample, inside, there, scores, total, own, hit = _scores(logits, label, samples, CLASSES, SAMPLES, SPAN)
    steep = tl.where(own == _IGNORED, 0.0, tl.load(slope + sample, mask=inside, other=0.0))
    share = tl.exp(scores - total[:, None]) - tl.where(hit, 1.0, 0.0)
    target = out + sample[:, None] * CLASSES + tl.arange(0, SPAN)[None, :]
    tl.store(target, share * steep[:, None], mask=there)


def entropy(logits: Tensor, label: Tensor) -> Tensor:
    """The cross-entropy of each sample, of ``logits`` [samples, classes] in float32."""
    logits, label = logits.contiguous(), label.contiguous()
    out = logits.new_empty(len(logits))
    _entropy[_grid(logits)](logits, label, out, *_sizes(logits))
    return out


def entropy_gradient(logits: Tensor, label: Tensor, slope: Tensor) -> Tensor:
    """The gradient by the logits, if that by the cross-entropy of each sample is ``slope``."""
    logits, label, slope = logits.contiguous(), label.contiguous(), slope.contiguous()
    out = logits.new_empty(logits.shape)
    _by_logits[_grid(logits)](logits, label, slope, out, *_sizes(logits))
    return out


def _sizes(logits: Tensor) -> tuple[int, int, int, int]:
    """Samples and classes, and how many samples and numbers of each a program has."""
    samples, classes = logits.shape
    span = int(triton.next_power_of_2(classes))
    return samples, classes, max(_AT_ONCE // span, 1), span


def _grid(logits: Tensor) -> tuple[int]:
    samples, _, at_once, _ = _sizes(logits)
    return (int(triton.cdiv(samples, at_once)),)
