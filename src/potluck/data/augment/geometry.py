"""Random rectangles in whole numbers: the same on every device and in every precision."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from potluck.draws import uniform

TRIES = 10
"""How often a rectangle that does not fit is drawn again, as usual."""
# Ratios are drawn from this many values, evenly spaced on the logarithmic scale, each a multiple of 2 ** -20: exp and
# sqrt in floating point are not the same on every device. Steps of 0.03 % vanish in the rounding to pixels.
_RATIOS = 4096
_ONE = 1 << 20


def draw(keys: Tensor, first: int, count: int) -> Tensor:
    """Draws ``first`` to ``first + count`` of each key as 24 random bits, of shape [count, B]."""
    streams = torch.arange(first, first + count, device=keys.device).unsqueeze(1)
    return (uniform(keys, streams) * (1 << 24)).to(torch.int64)


def below(bits: Tensor, limit: int | Tensor) -> Tensor:
    """A whole number from 0 to below ``limit``, all equally likely."""
    return (bits * limit) >> 24


def sides(scaled: Tensor, unit: int, ratio: Tensor, lowest: float, longest: int) -> tuple[Tensor, Tensor]:
    """The two sides, in whole pixels, of rectangles with a given area and a random ratio of the first to the second.

    Args:
        scaled: The areas, in units of a ``unit``-th pixel.
        unit: Parts of a pixel.
        ratio: Random bits that the ratios are taken from: log-uniform from ``lowest`` to its reciprocal.
        lowest: The lowest ratio.
        longest: Sides that are longer come as this.
    """
    step = below(ratio, _RATIOS)
    ratios = _ratios(lowest, scaled.device)
    # A root rounds to n or more when four times the area is (2n - 1) squared or more.
    odd = 2 * torch.arange(longest, device=scaled.device) + 1
    both = torch.stack((scaled * ratios[step], scaled * ratios[_RATIOS - 1 - step]))  # the reciprocal ratio
    one, other = torch.searchsorted(odd * odd, 4 * both // (unit * _ONE), right=True)
    return one, other


@lru_cache
def _ratios(lowest: float, device: torch.device) -> Tensor:
    """Ratios in units of 2 ** -20; kept on the device, for a copy to it would end any capture of a graph."""
    steps = ((index + 0.5) / _RATIOS for index in range(_RATIOS))
    return torch.tensor([round(_ONE * lowest ** (1 - 2 * step)) for step in steps], device=device)
