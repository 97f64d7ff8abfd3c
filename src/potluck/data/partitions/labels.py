"""What a partition is made from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

Labels = Mapping[str, Tensor]
"""The class of every sample of each pool, "train" among them."""


def class_counts(y: Tensor, classes: int) -> Tensor:
    """How many samples of each class there are."""
    return torch.bincount(y, minlength=classes)
