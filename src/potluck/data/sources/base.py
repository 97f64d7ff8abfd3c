"""What every data set looks like once it is in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from potluck.errors import DataError


@dataclass(frozen=True, eq=False)
class Source:
    """A whole data set, as published: nothing is split, normalised or left out yet.

    Attributes:
        name: The name it is loaded by.
        x: The images, uint8 of shape [n, channels, height, width].
        y: Their classes, int64 of shape [n].
        class_names: What the classes are called, in order.
        mean: Mean per channel, to be subtracted after the images were divided by 255.
        std: Standard deviation per channel, to be divided by after that.
        test_from: The rows from here on are the official test set; None where there is no official split.
        default_split: The split that is used when none is asked for.
    """

    name: str
    x: Tensor
    y: Tensor
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    test_from: int | None = None
    default_split: Literal["release", "official", "8:1:1"] = "8:1:1"

    def __post_init__(self) -> None:
        """Refuse a data set that contradicts itself."""
        if self.x.ndim != 4 or self.x.dtype != torch.uint8:
            raise DataError(f"{self.name}: images must be uint8 of shape [n, channels, height, width].")
        if self.y.shape != self.x.shape[:1] or self.y.dtype != torch.int64:
            raise DataError(f"{self.name}: labels must be int64, one for each of the {len(self.x)} images.")
        if len(self.y) and not 0 <= int(self.y.min()) <= int(self.y.max()) < self.classes:
            raise DataError(f"{self.name}: every label must be from 0 to {self.classes - 1}.")
        if not len(self.mean) == len(self.std) == self.x.shape[1]:
            raise DataError(f"{self.name}: mean and std need one number for each of {self.x.shape[1]} channels.")
        if self.test_from is not None and not 0 < self.test_from < len(self.y):
            raise DataError(f"{self.name}: the official test set must begin within the {len(self.y)} samples.")

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image: channels, height, width."""
        return tuple(self.x.shape[1:])
