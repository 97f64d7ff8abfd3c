"""ShuffleNetV2 at width 1.0 (Ma et al., ECCV 2018), for images of 28 or 32 pixels as FedClassAvg uses it.

The network is the one for ImageNet, its stem included; small images are not enlarged.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from potluck.models._inputs import image_shape
from potluck.models.classifier import REPRESENTATION, Classifier

FEATURES = 1024
"""What the trunk gives per image."""

_STEM = 24
_STAGES = ((116, 4), (232, 8), (464, 4))  # channels, and how many units; the first unit of each halves the image


class Unit(nn.Module):
    """Half of the channels passes by, the other half is convolved; then the halves are shuffled.

    The first unit of a stage (``stride`` 2) has no half to pass by: both branches convolve all channels.
    """

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        half = filters // 2
        taken = channels if stride == 2 else half
        self.halves = stride == 1
        self.aside: nn.Module = nn.Identity()
        if stride == 2:
            self.aside = nn.Sequential(*_depthwise(channels, stride), *_pointwise(channels, half))
        self.branch = nn.Sequential(*_pointwise(taken, half), *_depthwise(half, stride), *_pointwise(half, half))

    def forward(self, x: Tensor) -> Tensor:
        """What comes out for a batch of feature maps."""
        aside, taken = x.chunk(2, dim=1) if self.halves else (x, x)
        # The shuffle: channel i of the one half comes to lie beside channel i of the other.
        return torch.stack([self.aside(aside), self.branch(taken)], dim=2).flatten(1, 2)


def _pointwise(channels: int, filters: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, filters, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU()]


def _depthwise(channels: int, stride: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, channels, 3, stride, padding=1, groups=channels, bias=False)
    return [convolution, nn.BatchNorm2d(channels)]


def shufflenet_v2_trunk(channels: int) -> nn.Sequential:
    """All of ShuffleNetV2 x1.0 but its last layer: 1024 numbers per image.

    >>> trunk = nn.Sequential(shufflenet_v2_trunk(3), nn.Linear(1024, 1000))      # the original, for ImageNet
    >>> sum(p.numel() for p in trunk.parameters())
    2278604
    """
    trunk = nn.Sequential(
        nn.Conv2d(channels, _STEM, 3, 2, padding=1, bias=False),
        nn.BatchNorm2d(_STEM),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    )
    inside = _STEM
    for filters, units in _STAGES:
        trunk.extend([Unit(inside, filters, 2), *(Unit(filters, filters, 1) for _ in range(units - 1))])
        inside = filters
    trunk.extend([*_pointwise(inside, FEATURES), nn.AdaptiveAvgPool2d(1), nn.Flatten()])
    return trunk


def shufflenet_v2(shape: tuple[int, ...], classes: int, width: int = REPRESENTATION) -> Classifier:
    """ShuffleNetV2 x1.0 with a representation of ``width`` numbers.

    >>> sum(p.numel() for p in shufflenet_v2((3, 32, 32), 10).parameters())
    1783534
    """
    channels, _, _ = image_shape("ShuffleNetV2", shape, classes)
    return Classifier(shufflenet_v2_trunk(channels), FEATURES, classes, width)
