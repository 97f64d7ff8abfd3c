"""Augmentation of whole batches by tensor operations alone.

Where a pixel comes from is computed in whole numbers from one key per sample, so an image is augmented in the same
way on every device, in every precision and in any batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from potluck.draws import uniform
from potluck.errors import ConfigError, nearest

Augmentation = Callable[[Tensor, Tensor], Tensor]

_PADDING = 4
_TRIES = 10
# Ratios are drawn from this many values, evenly spaced on the logarithmic scale, each a multiple of 2 ** -20: exp and
# sqrt in floating point are not the same on every device. Steps of 0.03 % vanish in the rounding to pixels.
_RATIOS = 4096
_RATIO_ONE = 1 << 20


def preset(name: str) -> Augmentation:
    """The augmentation called ``name``: a function of images [B, C, H, W] and keys [B].

    >>> preset("none")(torch.ones(2, 1, 4, 4), torch.arange(2)).shape
    torch.Size([2, 1, 4, 4])
    """
    if name not in _PRESETS:
        raise ConfigError(nearest(name, _PRESETS, "augmentation"))
    return _PRESETS[name]


def names() -> list[str]:
    """The augmentations there are.

    >>> names()
    ['none', 'release']
    """
    return sorted(_PRESETS)


def none(x: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG001
    """Leave ``x``, of any shape, as it is."""
    return x


def release(x: Tensor, keys: Tensor) -> Tensor:
    """Augment as the papers' released code does: flip, erase, shift, in this order.

    Half of the images are mirrored. In half of them a rectangle of 4 to 20 % of the area, with sides in a ratio of
    1:2 to 2:1, is set to zero (Zhong et al., "Random erasing data augmentation"). Then each is padded with four zeros
    on every side, and a random part of the original size is kept. After normalisation zero is the mean.

    Args:
        x: Normalised images, of shape [B, C, H, W].
        keys: One key per image, int64 of shape [B] on the device of ``x``.
    """
    height, width = x.shape[-2:]
    flip, erase, down, right = _draws(keys, first=0, count=4).view(4, len(x), 1, 1)
    top, left, bottom, edge = _rectangle(keys, height, width).view(4, len(x), 1, 1)
    # Where each pixel of the result lies in the image that was flipped and erased, but not shifted.
    row = torch.arange(height, device=x.device).view(-1, 1) + _below(down, 2 * _PADDING + 1) - _PADDING
    column = torch.arange(width, device=x.device) + _below(right, 2 * _PADDING + 1) - _PADDING
    erased = (row >= top) & (row < bottom) & (column >= left) & (column < edge) & (_below(erase, 2) == 1)
    outside = (row < 0) | (row >= height) | (column < 0) | (column >= width)
    mirrored = torch.where(_below(flip, 2) == 1, width - 1 - column, column)
    pixel = row.clamp(0, height - 1) * width + mirrored.clamp(0, width - 1)
    moved = x.flatten(2).gather(2, pixel.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)).view(x.shape)
    return moved.masked_fill((erased | outside).unsqueeze(1), 0)


def _rectangle(keys: Tensor, height: int, width: int) -> Tensor:
    """Top, left, bottom and right (these exclusive) of the part to erase, empty where none fits; of shape [4, B]."""
    # A rectangle that is not smaller than the image is drawn again, which can only happen to an elongated image.
    tries = 1 if 4 * 0.2 * 2 * height * width < (2 * min(height, width) - 1) ** 2 else _TRIES
    area, ratio, down, right = _draws(keys, first=4, count=4 * tries).view(tries, 4, len(keys)).unbind(1)
    step = _below(ratio, _RATIOS)
    ratios = _ratios(keys.device)
    # 16 of the bits, between 4 % and 20 % of the area: 16,384 / 409,600 and 81,920 / 409,600.
    scale = height * width * (16_384 + (area >> 8))
    tall = _side(scale * ratios[step], max(height, width))
    wide = _side(scale * ratios[_RATIOS - 1 - step], max(height, width))  # the reciprocal ratio
    fits = (tall < height) & (wide < width)
    top, left = _below(down, height - tall + 1), _below(right, width - wide + 1)
    sides = torch.stack((top, left, torch.where(fits, top + tall, top), left + wide))
    first = fits.to(torch.uint8).argmax(0)  # 0 where none fits
    return sides.gather(1, first.expand(4, 1, -1)).squeeze(1)


def _side(scaled: Tensor, longest: int) -> Tensor:
    """The square root of an area in units of 2 ** -20 / 409,600, rounded to whole pixels (at most ``longest``)."""
    # A root rounds to n or more when four times the area is (2n - 1) squared or more.
    odd = 2 * torch.arange(longest, device=scaled.device) + 1
    return torch.searchsorted(odd * odd, 4 * scaled // (409_600 * _RATIO_ONE), right=True)


@lru_cache
def _ratios(device: torch.device) -> Tensor:
    """From 1/2 to 2, in units of 2 ** -20; kept on the device, for a copy to it would end any capture of a graph."""
    steps = ((index + 0.5) / _RATIOS for index in range(_RATIOS))
    return torch.tensor([round(_RATIO_ONE * 4**step / 2) for step in steps], device=device)


def _draws(keys: Tensor, first: int, count: int) -> Tensor:
    """Draws ``first`` to ``first + count`` of each key as 24 random bits, of shape [count, B]."""
    streams = torch.arange(first, first + count, device=keys.device).unsqueeze(1)
    return (uniform(keys, streams) * (1 << 24)).to(torch.int64)


def _below(bits: Tensor, limit: int | Tensor) -> Tensor:
    """A whole number from 0 to below ``limit``, all equally likely."""
    return (bits * limit) >> 24


_PRESETS: dict[str, Augmentation] = {"none": none, "release": release}
