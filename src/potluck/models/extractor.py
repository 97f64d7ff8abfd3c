"""pFedES's extractor: a very small network whose output has the shape of its input.

It stands before a client's own model, of whatever kind, so that all clients can share it.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models.layers import activated


class Extractor(nn.Sequential):
    """Layers one after another, of which a convolution and its ReLU are one step."""

    def forward(self, x: Tensor) -> Tensor:
        """Images of the same size."""
        layers = list(self)
        while layers:
            layer = layers.pop(0)
            if isinstance(layer, nn.Conv2d) and layers and type(layers[0]) is nn.ReLU:
                layers.pop(0)
                x = activated(layer, x)
            else:
                x = layer(x)
        return x


def same_size_extractor(shape: tuple[int, ...], hidden: int = 8, layers: int = 2) -> nn.Sequential:
    """Make the extractor for inputs of ``shape``; what it gives is never negative.

    Images get two 3x3 convolutions, as in the paper. Flat inputs (the rows of a table), which the paper has not, get
    two linear layers of the same kind.

    Args:
        shape: ``(channels, height, width)`` of an image, or ``(features,)`` of a row.
        hidden: filters, or units, between the layers.
        layers: how many layers; the paper has two.

    >>> sum(p.numel() for p in same_size_extractor((3, 32, 32)).parameters())
    443
    """
    if len(shape) not in (1, 3):
        raise ModelError(
            f"there is no same-size extractor for inputs of shape {list(shape)}: "
            "give images [channels, height, width] or rows [features]."
        )
    if min(*shape, hidden, layers) < 1:
        raise ModelError(
            f"there is no same-size extractor for inputs of shape {list(shape)} with {layers} layers and {hidden} "
            "hidden units: each of these must be at least 1."
        )
    widths = [shape[0], *[hidden] * (layers - 1), shape[0]]
    steps: list[nn.Module] = []
    for width, following in pairwise(widths):
        # A padding of 1 is what "same" means for 3x3, without the slower path that the word takes in PyTorch.
        layer = nn.Conv2d(width, following, 3, padding=1) if len(shape) == 3 else nn.Linear(width, following)
        steps += [layer, nn.ReLU()]
    return Extractor(*steps) if len(shape) == 3 else nn.Sequential(*steps)
