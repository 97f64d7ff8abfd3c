"""What happens to a batch between the data set and the network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from potluck.data.augment import of_colours, preset
from potluck.data.augment.released import plan_release, released
from potluck.errors import ConfigError, DataError

_AT_ONCE = 512 * 3 * 32 * 32
"""On a CPU so many numbers at once: more leave its cache, and their memory would take longer to get than to fill."""


@dataclass(frozen=True)
class Transform:
    """Normalise images, and augment them for training.

    With neither mean nor augmentation it takes inputs of any shape, such as the rows of a table.

    Attributes:
        mean: Mean per channel, after bytes were divided by 255; None: no normalisation.
        std: Standard deviation per channel; None as the mean is.
        augmentation: The name of a preset of :mod:`potluck.data.augment`.

    >>> image = torch.full((1, 1, 2, 2), 255, dtype=torch.uint8)
    >>> Transform(mean=(0.5,), std=(0.25,)).plain(image, torch.float32).unique().item()
    2.0
    """

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    augmentation: str = "none"

    def __post_init__(self) -> None:
        """Refuse what could not be applied, before there is any data."""
        preset(self.augmentation)
        mean, std = self.mean, self.std
        if mean is None or std is None:
            if mean is not std:
                raise ConfigError("mean and std belong together: give both, or neither.")
        elif not mean or len(mean) != len(std) or not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
            raise ConfigError(
                f"mean {mean} and std {std} must have one finite number per channel each, those of std above 0."
            )

    def plain(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """``x`` as the network sees it in a test: bytes divided by 255, normalised, as ``dtype``.

        Inputs that are no bytes are not divided.
        """
        return self._normalised(_unit(x, dtype), fresh=x.dtype == torch.uint8).to(dtype)

    def augmented(
        self, x: Tensor, keys: Tensor, dtype: torch.dtype, layout: torch.memory_format = torch.contiguous_format
    ) -> Tensor:
        """``x`` as the network sees it in training: also augmented, each sample by its own one of ``keys``.

        Images lie in the ``layout`` that is wished for where that costs nothing.
        """
        if self.augmentation != "none" and x.ndim != 4:
            raise DataError(
                f"augmentation {self.augmentation!r} is for images [n, channels, height, width], and inputs have the "
                f"shape {tuple(x.shape)}: use 'none'."
            )
        if x.device.type != "cpu" or x.numel() <= _AT_ONCE:
            return self._augmented(x, keys, dtype, layout)
        result = _empty(x.shape, dtype)
        samples = max(1, _AT_ONCE * len(x) // x.numel())
        for start in range(0, len(x), samples):
            part = slice(start, start + samples)
            result[part] = self._augmented(x[part], keys[part], dtype)
        return result

    def plan(self, keys: Tensor, shape: tuple[int, ...]) -> Tensor:
        """What is drawn for samples of this shape, by the keys of any number of dimensions; one more for the numbers.

        Many steps are planned at once in less time than one by one.
        """
        if self.augmentation != "release" or len(shape) != 3:
            return keys.unsqueeze(-1)
        planned = plan_release(keys.flatten(), *shape[1:])
        return planned.view(*keys.shape, planned.shape[1])

    def planned(self, x: Tensor, plan: Tensor, dtype: torch.dtype) -> Tensor:
        """``x`` augmented as planned: the same as :meth:`augmented` by the keys of the plan."""
        if self.augmentation != "release" or x.ndim != 4:
            return self.augmented(x, plan.squeeze(-1), dtype)
        return self._released(x, plan, dtype)

    def _augmented(
        self, x: Tensor, keys: Tensor, dtype: torch.dtype, layout: torch.memory_format = torch.contiguous_format
    ) -> Tensor:
        if self.augmentation == "release":
            return self._released(x, plan_release(keys, *x.shape[2:]), dtype, layout)
        if of_colours(self.augmentation):
            return self._normalised(preset(self.augmentation)(_unit(x, dtype), keys), fresh=True).to(dtype)
        return preset(self.augmentation)(self.plain(x, dtype), keys)

    def _released(
        self, x: Tensor, plan: Tensor, dtype: torch.dtype, layout: torch.memory_format = torch.contiguous_format
    ) -> Tensor:
        # Normalised right where they are read from: images on a CPU take longer to copy than to compute.
        def draw(images: Tensor) -> None:
            self._normalised(_unit(x, dtype, images), fresh=True)

        return released(plan, x.shape, _at_least_single(dtype), draw, layout).to(dtype)

    def constants(self, dtype: torch.dtype, device: torch.device) -> Tensor | None:
        """Mean and standard deviation of each channel, [2, channels]; none without normalisation."""
        if self.mean is None or self.std is None:
            return None
        return _constant((*self.mean, *self.std), (2, len(self.mean)), dtype, device)

    def _normalised(self, x: Tensor, fresh: bool) -> Tensor:
        """``x`` normalised, in its own memory where it is ``fresh``: where nobody else holds it."""
        if self.mean is None or self.std is None:
            return x
        channels = len(self.mean)
        if x.ndim != 4 or x.shape[1] != channels:
            raise DataError(
                f"inputs of shape {tuple(x.shape)} cannot be normalised with {channels} channel means: "
                f"they should be [n, {channels}, height, width]."
            )
        mean, std = (_constant(values, (1, channels, 1, 1), x.dtype, x.device) for values in (self.mean, self.std))
        return (x.sub_(mean) if fresh else x - mean).div_(std)


def _empty(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Memory on the CPU, from NumPy: it asks for large pages, and a system gives these several times as fast."""
    space = np.empty(shape.numel() * dtype.itemsize, dtype=np.uint8)
    return torch.from_numpy(space).view(dtype).view(shape)


def _unit(x: Tensor, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
    """Bytes divided by 255, in the type that is computed in; inputs that are no bytes are not divided."""
    result = x.to(_at_least_single(dtype)) if out is None else out.copy_(x)
    if x.dtype != torch.uint8:
        return result
    return result.div_(_constant((255.0,), (1,) * x.ndim, result.dtype, x.device))


def _at_least_single(dtype: torch.dtype) -> torch.dtype:
    # Half precision would lose digits on the way; whatever the target, compute at least in float32.
    return torch.promote_types(dtype, torch.float32)


@lru_cache
def _constant(values: tuple[float, ...], shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    # Kept, for a copy to the device would end any capture of a graph; and a tensor also where one number would do,
    # for CUDA divides by a plain number as a product with its reciprocal, and so not as the CPU does.
    with torch.inference_mode(False):  # whoever asks first, others may differentiate through it
        return torch.tensor(values, dtype=dtype, device=device).view(shape)
