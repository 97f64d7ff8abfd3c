"""FedClassAvg's AlexNet: counts by arithmetic, and a literal forward pass."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models.alexnet import alexnet

from .counting import Layers, convolution, linear, parameters


def weights(channels: int, classes: int, width: int) -> int:
    convolutions = convolution(3, channels, 64) + convolution(3, 64, 128) + convolution(3, 128, 256)
    biases = 64 + 128 + 256
    return convolutions + biases + linear(2304, 512) + linear(512, width) + linear(width, classes)


@pytest.mark.parametrize(
    ("shape", "classes", "width", "count"),
    [
        ((3, 32, 32), 10, 512, 1_818_762),
        ((1, 28, 28), 10, 512, 1_817_610),
        ((1, 28, 28), 26, 512, 1_825_818),
        ((3, 32, 32), 100, 500, 1_857_576),
    ],
)
def test_parameter_counts(shape: tuple[int, ...], classes: int, width: int, count: int) -> None:
    assert parameters(alexnet(shape, classes, width)) == weights(shape[0], classes, width) == count


def literal(model: nn.Module, x: Tensor) -> Tensor:
    layers = Layers(model)
    side = x.shape[-1]
    x = F.max_pool2d(F.relu(layers.convolution(x, padding=1)), 2, 1, 1)
    assert x.shape[-1] == side + 1
    x = F.max_pool2d(F.relu(layers.convolution(x, padding=1)), 2, 2, 1)
    assert x.shape[-1] == (side + 3) // 2
    x = F.adaptive_avg_pool2d(F.relu(layers.convolution(x, padding=1)), 3).flatten(1)
    assert x.shape[1] == 2304
    x = layers.linear(F.relu(layers.linear(F.relu(layers.linear(x)))))
    assert layers.used_up()
    return x


@pytest.mark.parametrize("side", [28, 32])
def test_forward_pass(side: int) -> None:
    model = alexnet((2, side, side), 5).double().eval()
    x = torch.randn(2, 2, side, side, dtype=torch.float64)
    torch.testing.assert_close(model(x), literal(model, x))


def test_dropout() -> None:
    (dropout,) = [layer for layer in alexnet((1, 28, 28), 5).modules() if isinstance(layer, nn.Dropout)]
    assert dropout.p == 0.5


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match=r"AlexNet takes images \[channels, height, width\], not .* \[784\]"):
        alexnet((784,), 10)
