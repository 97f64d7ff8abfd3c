"""Where pixels are: what the kernels of convolutions have in common."""

from __future__ import annotations

import triton
import triton.language as tl

NUMBERS = ["pixels", "share", "samples", "clients", "weight_step", "bias_step"]
"""These change from cohort to cohort, or from network to network: no kernel is compiled anew for them."""


def shares(pixels: int, at_once: int, most: int) -> tuple[int, int]:
    """In how many parts pixels are dealt out, about ``most``, and how many of them each has.

    >>> shares(1000, 64, 4), shares(100, 128, 0)
    ((4, 256), (1, 128))
    """
    share = -(-pixels // (max(most, 1) * at_once)) * at_once
    return -(-pixels // share), share


@triton.jit
def place(pixel, OH: tl.constexpr, OW: tl.constexpr):
    """The sample, row and column of an output, counted through all samples of a client."""
    within = pixel % (OH * OW)
    return pixel // (OH * OW), within // OW, within % OW


@triton.jit
def within(seen, at, SIZE: tl.constexpr, PADDING: tl.constexpr):
    """Of what is seen, that which is in the image and not in its padding."""
    if PADDING > 0:
        seen = seen & (at >= 0) & (at < SIZE)
    return seen
