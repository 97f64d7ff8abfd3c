"""Augmentation of whole batches by tensor operations alone.

Where a pixel comes from is computed in whole numbers from one key per sample, so an image is augmented in the same
way on every device, in every precision and in any batch.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from potluck.data.augment.released import release
from potluck.data.augment.views import two_views
from potluck.errors import ConfigError, nearest

__all__ = ["Augmentation", "names", "none", "of_colours", "preset", "release", "two_views"]

Augmentation = Callable[[Tensor, Tensor], Tensor]


def preset(name: str) -> Augmentation:
    """The augmentation called ``name``: a function of images [B, C, H, W] and keys [B].

    >>> import torch
    >>> preset("none")(torch.ones(2, 1, 4, 4), torch.arange(2)).shape
    torch.Size([2, 1, 4, 4])
    """
    if name not in _PRESETS:
        raise ConfigError(nearest(name, _PRESETS, "augmentation"))
    return _PRESETS[name]


def names() -> list[str]:
    """The augmentations there are.

    >>> names()
    ['none', 'release', 'two-views']
    """
    return sorted(_PRESETS)


def of_colours(name: str) -> bool:
    """Whether an augmentation works on colours, from 0 to 1: images are normalised after it, not before."""
    return name == "two-views"


def none(x: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG001
    """Leave ``x``, of any shape, as it is."""
    return x


_PRESETS: dict[str, Augmentation] = {"none": none, "release": release, "two-views": two_views}
