"""The networks of FedProto (Tan et al., AAAI 2022): for each data set, a few that differ a little.

Clients differ in the output channels of a convolution (MNIST, FEMNIST) or in strides (CIFAR-10). Layers and numbers are
those of its released code: 18, 20 or 22 channels, and the strides (1, 4) or (2, 2) of the stem. Of the file with the
ResNet only copies in others' repositories could be read, which agree with each other; the paper was not at hand.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models._inputs import SMALLEST_FOR_TWO, image_shape, left_after_two
from potluck.models.resnet import FEATURES, resnet18_trunk

REPRESENTATION = 50
"""Width of the representation, and so of a prototype, of the networks for MNIST."""

_CHANNELS = {1: 18, 2: 20, 3: 22}  # of the second convolution
_STRIDES = {1: (1, 4), 2: (2, 2)}  # of the first convolution and of the max-pooling after it
_DROPOUT = 0.5


class DroppedLinear(nn.Linear):
    """A linear layer with dropout of its inputs.

    FedProto's prototypes are of the representation before this dropout, so that it belongs to the head; and the head
    has the weights of a plain linear layer, so that others can be exchanged for it.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Class scores (logits) of a batch of representations."""
        return super().forward(F.dropout(input, _DROPOUT, self.training))


class FedProtoCNN(nn.Module):
    """FedProto's network for MNIST: two unpadded 5x5 convolutions, 50 units, dropout.

    The network that its code has for FEMNIST differs in a 3x3 kernel of the first convolution and in images of 128
    pixels (it follows from the size of a layer: 841 times the channels); for images of 28 pixels this one is meant.

    Args:
        number: 1 to 3.
        shape: channels, height and width of an image.
        classes: how many classes there are.

    >>> sum(p.numel() for p in FedProtoCNN(2, (1, 28, 28), 10).parameters())
    21840
    """

    def __init__(self, number: int, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        if number not in _CHANNELS:
            raise ModelError(f"there is no FedProto-CNN-{number}: there are 1 to 3.")
        channels, height, width = image_shape(f"FedProto-CNN-{number}", shape, classes, SMALLEST_FOR_TWO)
        filters = _CHANNELS[number]
        self.body = nn.Sequential(
            nn.Conv2d(channels, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(10, filters, 5),
            nn.Dropout2d(_DROPOUT),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(filters * left_after_two(height) * left_after_two(width), REPRESENTATION),
            nn.ReLU(),
        )
        self.head = DroppedLinear(REPRESENTATION, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (logits) of a batch of images."""
        logits: Tensor = self.head(self.body(x))
        return logits


class FedProtoResNet(nn.Module):
    """FedProto's network for CIFAR-10: ResNet-18, of which two clients may differ in the strides of the stem.

    The representation is what the last stage gives, 512 numbers for an image of 32 pixels; there is no layer between it
    and the head. Both networks have the same weights, and network 1 costs more. FedProto's code starts all but the
    first convolution and the head from weights trained on ImageNet, which Potluck does not carry: here all start at
    random.

    Args:
        number: 1 for the strides (1, 4), 2 for (2, 2), which are those of ResNet-18.
        shape: channels, height and width of an image.
        classes: how many classes there are.

    >>> sum(p.numel() for p in FedProtoResNet(1, (3, 32, 32), 10).parameters())
    11181642
    """

    def __init__(self, number: int, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        if number not in _STRIDES:
            raise ModelError(f"there is no FedProto-ResNet-{number}: there are 1 and 2.")
        channels, _, _ = image_shape(f"FedProto-ResNet-{number}", shape, classes)
        self.body = resnet18_trunk(channels, _STRIDES[number])
        self.head = nn.Linear(FEATURES, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (logits) of a batch of images."""
        logits: Tensor = self.head(self.body(x))
        return logits
