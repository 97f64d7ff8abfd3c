"""FedClassAvg's AlexNet: a small network of its own, as the one for ImageNet cannot take images of 28 or 32 pixels.

The paper says no more than that it is custom; the layers are those of its released code. They have little in common
with AlexNet (Krizhevsky et al., NIPS 2012): three 3x3 convolutions instead of five larger ones.
"""

from __future__ import annotations

from torch import nn

from potluck.models._inputs import image_shape
from potluck.models.classifier import REPRESENTATION, Classifier

_HIDDEN = 512


def alexnet(shape: tuple[int, ...], classes: int, width: int = REPRESENTATION) -> Classifier:
    """FedClassAvg's AlexNet with a representation of ``width`` numbers.

    Each convolution keeps the size of the image. The first pooling does not halve it (its stride is 1), and makes it
    one pixel larger.

    >>> sum(p.numel() for p in alexnet((3, 32, 32), 10).parameters())
    1818762
    """
    channels, _, _ = image_shape("AlexNet", shape, classes)
    trunk = nn.Sequential(
        nn.Conv2d(channels, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1, padding=1),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=2, padding=1),
        nn.Conv2d(128, 256, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(256 * 3 * 3, _HIDDEN),
        nn.ReLU(),
    )
    return Classifier(trunk, _HIDDEN, classes, width)
