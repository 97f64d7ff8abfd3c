"""The CNN with which FedAvg was introduced (McMahan et al., AISTATS 2017), for MNIST."""

from __future__ import annotations

from torch import Tensor, nn

from potluck.models._inputs import image_shape

_HIDDEN = 512
_SMALLEST = 4


class FedAvgCNN(nn.Module):
    """Two 5x5 convolutions of 32 and 64 filters, each followed by 2x2 max-pooling, then 512 units.

    The paper's 1,663,370 parameters on MNIST follow only if the convolutions keep the size of the image, so they are
    padded. It does not say what comes after the convolutions before pooling: a ReLU, as nearly everyone has it. Its
    network for CIFAR-10 is another one, from a tutorial.

    Args:
        shape: channels, height and width of an image.
        classes: how many classes there are.

    >>> sum(p.numel() for p in FedAvgCNN((1, 28, 28), 10).parameters())
    1663370
    """

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape("FedAvg-CNN", shape, classes, _SMALLEST)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), _HIDDEN),
            nn.ReLU(),
        )
        self.head = nn.Linear(_HIDDEN, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (logits) of a batch of images."""
        logits: Tensor = self.head(self.body(x))
        return logits
