"""Plain layers for the rows of a table: linear, ReLU, linear, ..."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from potluck.errors import ModelError


class MLP(nn.Module):
    """Linear layers with ReLUs between; the last hidden layer gives the representation.

    It is no network of the papers, whose data are images. Inputs of any shape are laid out as rows first.

    Args:
        hidden: widths of the hidden layers.
        shape: shape of one input.
        classes: how many classes there are.

    >>> MLP([128, 64], (20,), 3).body
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=20, out_features=128, bias=True)
      (2): ReLU()
      (3): Linear(in_features=128, out_features=64, bias=True)
      (4): ReLU()
    )
    """

    def __init__(self, hidden: Sequence[int], shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        if not hidden or min(*hidden, *shape, 1) < 1 or classes < 1:
            raise ModelError(
                f"there is no MLP with hidden widths {list(hidden)} for inputs of shape {list(shape)} and {classes} "
                "classes: it needs a hidden layer, and at least 1 of everything."
            )
        self.body = nn.Sequential(nn.Flatten())
        width = math.prod(shape)
        for following in hidden:
            self.body.extend([nn.Linear(width, following), nn.ReLU()])
            width = following
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (logits) of a batch of inputs."""
        logits: Tensor = self.head(self.body(x))
        return logits
