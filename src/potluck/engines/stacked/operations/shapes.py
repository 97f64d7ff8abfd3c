"""What a convolution is, and what follows from it; what a ReLU lets through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

FEW_ENOUGH = 32
"""Channels beyond which PyTorch's own convolutions are faster."""
CUT = 4
"""Stands for a window of 2 by 2 numbers, of which else one is the largest, that a ReLU cuts off."""
_COUNTED = 1 << 26
"""Pixels of one client: of more, each with as many channels as are few enough, kernels would lose count."""


class Shape(NamedTuple):
    """What a convolution is, beside its filters."""

    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1


def ends(size: Sequence[int], kernel: Sequence[int], padding: Sequence[int]) -> tuple[int, int]:
    """Height and width of what a convolution of stride 1 makes of an image of this height and width.

    >>> ends((32, 32), (5, 5), (0, 1))
    (28, 30)
    """
    high, wide = (edge + 2 * pad - span + 1 for edge, span, pad in zip(size, kernel, padding, strict=True))
    return high, wide


def is_small(samples: int, size: torch.Size, filters: torch.Size, shape: Shape) -> bool:
    """Whether kernels are made for a convolution of one client.

    Args:
        samples: How many images it has.
        size: Channels, height and width of each.
        filters: Outputs, channels, height and width.
        shape: What else it is.
    """
    outputs, channels, *kernel = filters
    plain = shape == Shape(padding=shape.padding) and channels == size[0]
    narrow = all(pad < span for pad, span in zip(shape.padding, kernel, strict=True))
    pixels = samples * max(torch.Size(one).numel() for one in (size[1:], ends(size[1:], kernel, shape.padding)))
    return plain and narrow and max(outputs, channels) <= FEW_ENOUGH and pixels < _COUNTED


def through(slope: Tensor, gate: Tensor | None) -> Tensor:
    """Slopes where a ReLU, which gave ``gate``, let numbers through."""
    return slope if gate is None else torch.where(gate <= 0, 0, slope)
