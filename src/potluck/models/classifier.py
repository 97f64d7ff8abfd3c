"""A trunk of any make that ends in the same two layers: how unlike networks get representations of one width.

FedClassAvg puts one linear layer after the convolutions of each of its four networks, so that all of them give 512
numbers, and makes the classifier a ReLU and one more linear layer. Here the ReLU belongs to the ``body``, so that the
``head`` is one ``nn.Linear``, which every algorithm can average, send and train.
"""

from __future__ import annotations

from torch import Tensor, nn

REPRESENTATION = 512
"""Width of the representation in FedClassAvg, the same in all of its networks."""


class Classifier(nn.Module):
    """``body``: trunk, linear layer, ReLU; ``head``: one linear layer.

    Args:
        trunk: Gives ``features`` numbers per input.
        features: How many.
        classes: How many classes there are.
        width: Width of the representation.
    """

    def __init__(self, trunk: nn.Module, features: int, classes: int, width: int = REPRESENTATION) -> None:
        super().__init__()
        self.body = nn.Sequential(trunk, nn.Linear(features, width), nn.ReLU())
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (logits) of a batch of inputs."""
        logits: Tensor = self.head(self.body(x))
        return logits
