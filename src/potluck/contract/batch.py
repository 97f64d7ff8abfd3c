"""What a loss sees of the data."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Samples of one step: one or more augmented views, labels, and a weight per sample.

    An engine may pad a batch with samples of weight 0. A loss therefore reduces per-sample values through
    :meth:`mean`, and masks pairs of samples by the product of their weights.

    >>> import torch
    >>> x = torch.zeros(3, 2)
    >>> batch = Batch((x,), torch.tensor([0, 1, 1]), torch.tensor([1.0, 1.0, 0.0]), torch.arange(3), torch.arange(3))
    >>> float(batch.mean(torch.tensor([1.0, 3.0, 100.0])))
    2.0

    Attributes:
        views: Independently augmented versions of the inputs.
        y: Labels.
        weight: 1 for a real sample, 0 for padding.
        index: Position of each sample in its data set.
        key: One key per sample for random draws within the step (dropout).
    """

    views: tuple[Tensor, ...]
    y: Tensor
    weight: Tensor
    index: Tensor
    key: Tensor

    @property
    def x(self) -> Tensor:
        """The inputs: the first view."""
        return self.views[0]

    def mean(self, values: Tensor) -> Tensor:
        """Mean of one value per sample over the real samples."""
        # At least one: a batch of nothing but padding has mean 0, and its step is discarded by the engine.
        return (values * self.weight).sum() / self.weight.sum().clamp(min=1)

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """Mean cross-entropy between ``logits`` and the labels."""
        return self.mean(F.cross_entropy(logits, self.y, reduction="none"))
