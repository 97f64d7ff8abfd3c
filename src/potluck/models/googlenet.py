"""GoogLeNet (Szegedy et al., CVPR 2015), for images of 28 or 32 pixels as FedClassAvg uses it.

The network is torchvision's, which FedClassAvg took: batch normalisation after every convolution, and 3x3 kernels where
the paper has 5x5 ones (a slip that torchvision keeps for the sake of its weights). The stem is the one for ImageNet;
small images are not enlarged.

**No auxiliary classifiers.** FedClassAvg's release makes them, and in training reads the main output alone. So they
never got a gradient, and cost time and 6.4 million weights for nothing. Here they do not exist.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from potluck.models._inputs import image_shape
from potluck.models.classifier import REPRESENTATION, Classifier

FEATURES = 1024
"""What the trunk gives per image."""

SMALLEST = 15
"""Below this nothing is left for the third pooling."""

_DROPOUT = 0.2

# Of each inception module: channels in; 1x1 filters; reduced to, 3x3 filters; reduced to, "5x5" filters; after pooling.
_INCEPTION = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


class Inception(nn.Module):
    """Four branches over the same input, their outputs side by side."""

    def __init__(
        self, channels: int, ones: int, less_three: int, three: int, less_five: int, five: int, pooled: int
    ) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            [
                _convolution(channels, ones, 1),
                nn.Sequential(_convolution(channels, less_three, 1), _convolution(less_three, three, 3, padding=1)),
                nn.Sequential(_convolution(channels, less_five, 1), _convolution(less_five, five, 3, padding=1)),
                nn.Sequential(nn.MaxPool2d(3, 1, padding=1), _convolution(channels, pooled, 1)),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """What comes out for a batch of feature maps."""
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def _convolution(channels: int, filters: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride, padding, bias=False),
        nn.BatchNorm2d(filters, eps=0.001),
        nn.ReLU(),
    )


def _pooling(kernel: int = 3) -> nn.MaxPool2d:
    return nn.MaxPool2d(kernel, 2, ceil_mode=True)


def googlenet_trunk(channels: int) -> nn.Sequential:
    """All of GoogLeNet but its last layer: 1024 numbers per image, after a dropout of 0.2.

    Convolutions start from a normal distribution of standard deviation 0.01, as in torchvision since 2021 (which cuts
    it off at 200 standard deviations: not at all; before, it was at two).

    >>> trunk = nn.Sequential(googlenet_trunk(3), nn.Linear(1024, 1000))      # the original, for ImageNet
    >>> sum(p.numel() for p in trunk.parameters())
    6624904
    """
    stages = {
        number: [Inception(*sizes) for name, sizes in _INCEPTION.items() if name[0] == number] for number in "345"
    }
    trunk = nn.Sequential(
        _convolution(channels, 64, 7, stride=2, padding=3),
        _pooling(),
        _convolution(64, 64, 1),
        _convolution(64, 192, 3, padding=1),
        _pooling(),
        *stages["3"],
        _pooling(),
        *stages["4"],
        _pooling(2),
        *stages["5"],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(_DROPOUT),
    )
    for module in trunk.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, std=0.01)
    return trunk


def googlenet(shape: tuple[int, ...], classes: int, width: int = REPRESENTATION) -> Classifier:
    """GoogLeNet with a representation of ``width`` numbers.

    >>> sum(p.numel() for p in googlenet((3, 32, 32), 10).parameters())
    6129834
    """
    channels, _, _ = image_shape("GoogLeNet", shape, classes, SMALLEST)
    return Classifier(googlenet_trunk(channels), FEATURES, classes, width)
