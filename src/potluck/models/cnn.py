"""CNN-1 to CNN-5: the five networks of pFedES, FedGH and pFedAFM, from 2.6 down to 0.7 million parameters.

Two unpadded 5x5 convolutions, each followed by ReLU and 2x2 max-pooling, then three linear layers. The 500 numbers
after the second of these (and its ReLU) are what the papers call the *representation*; the third is the *header*.

The sizes printed in the papers (10.00, 6.92, 5.04, 3.81, 2.55 MB of CIFAR-10 weights) agree with these networks but for
CNN-4, which has 4.04 MB, and the last digit of CNN-5, which has 2.556 MB.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models import layers
from potluck.models._inputs import SMALLEST_FOR_TWO, image_shape, left_after_two

REPRESENTATION = 500
"""Width of the representation, the same in all five networks: a header of one fits every other."""

# Filters of the second convolution and width of the first linear layer: all in which the five networks differ.
_WIDTHS = {1: (32, 2000), 2: (16, 2000), 3: (32, 1000), 4: (32, 800), 5: (32, 500)}


class CNN(nn.Module):
    """One of the papers' five networks, for images of any size from 16x16 and any number of classes.

    Args:
        number: 1 to 5.
        shape: channels, height and width of an image.
        classes: how many classes there are.
        representation: width of the representation; the papers have 500.

    >>> model = CNN(5, (3, 32, 32), 10)
    >>> sum(p.numel() for p in model.parameters())
    670058
    """

    keeps_samples_apart: ClassVar[bool] = True

    def __init__(self, number: int, shape: tuple[int, ...], classes: int, representation: int = REPRESENTATION) -> None:
        super().__init__()
        if number not in _WIDTHS:
            raise ModelError(f"there is no CNN-{number}: the papers have CNN-1 to CNN-5.")
        channels, height, width = image_shape(f"CNN-{number}", shape, classes, SMALLEST_FOR_TWO)
        filters, hidden = _WIDTHS[number]
        self.conv1 = nn.Conv2d(channels, 16, 5)
        self.conv2 = nn.Conv2d(16, filters, 5)
        self.fc1 = nn.Linear(filters * left_after_two(height) * left_after_two(width), hidden)
        self.fc2 = nn.Linear(hidden, representation)
        self.fc3 = nn.Linear(representation, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (logits) of a batch of images."""
        x = layers.pooled(self.conv1, x)
        x = layers.pooled(self.conv2, x)
        x = layers.activated(self.fc1, x.flatten(1))
        x = layers.activated(self.fc2, x)
        logits: Tensor = self.fc3(x)
        return logits
