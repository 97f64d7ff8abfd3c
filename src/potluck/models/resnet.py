"""ResNet-18 (He et al., CVPR 2016), for images of 28 or 32 pixels as FedClassAvg and FedGH use it.

The network is the one for ImageNet, its stem included: a 7x7 convolution and a 3x3 max-pooling, each of stride 2. Small
images are not enlarged, so that 32x32 pixels are down to one after the last stage.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from potluck.models._inputs import image_shape
from potluck.models.classifier import REPRESENTATION, Classifier

FEATURES = 512
"""What the trunk gives per image."""

_STAGES = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))  # channels in and out, stride; two blocks each


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, and a way around them: by a 1x1 convolution where the shape changes."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or channels != filters:
            self.around = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x: Tensor) -> Tensor:
        """What comes out for a batch of feature maps."""
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.around(x))


def resnet18_trunk(channels: int, strides: tuple[int, int] = (2, 2)) -> nn.Sequential:
    """All of ResNet-18 but its last layer: 512 numbers per image.

    Convolutions start from He's normal initialisation (fan out), as in torchvision.

    Args:
        channels: Channels of an image.
        strides: Of the first convolution and of the max-pooling after it; FedProto varies these two.

    >>> trunk = nn.Sequential(resnet18_trunk(3), nn.Linear(512, 1000))      # the original, for ImageNet
    >>> sum(p.numel() for p in trunk.parameters())
    11689512
    """
    first, pooling = strides
    trunk = nn.Sequential(
        nn.Conv2d(channels, 64, 7, first, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, pooling, padding=1),
    )
    for inside, filters, stride in _STAGES:
        trunk.extend([BasicBlock(inside, filters, stride), BasicBlock(filters, filters, 1)])
    trunk.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten()])
    for module in trunk.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return trunk


def resnet18(shape: tuple[int, ...], classes: int, width: int = REPRESENTATION) -> Classifier:
    """ResNet-18 with a representation of ``width`` numbers: 512 in FedClassAvg, 500 in FedGH.

    FedGH says no more of its ResNet-18 than that the layer before the last has 500 units; that the layer is one more
    than the original has, and is followed by a ReLU, is taken from FedClassAvg.

    >>> sum(p.numel() for p in resnet18((3, 32, 32), 10).parameters())
    11444298
    """
    channels, _, _ = image_shape("ResNet-18", shape, classes)
    return Classifier(resnet18_trunk(channels), FEATURES, classes, width)
