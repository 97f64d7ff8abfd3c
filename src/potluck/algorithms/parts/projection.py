"""Where a weight may go: applied after each step."""

from __future__ import annotations

from torch import Tensor


def between_0_and_1(weight: Tensor) -> Tensor:
    """The nearest numbers from 0 to 1."""
    return weight.clamp(0, 1)
