"""FedAvg's CNN: the paper's number of parameters, and a literal forward pass."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from potluck.errors import ModelError
from potluck.models.fedavg import FedAvgCNN

from .counting import Layers, linear, parameters


@pytest.mark.parametrize(("shape", "classes", "count"), [((1, 28, 28), 10, 1_663_370), ((3, 32, 32), 10, 2_156_490)])
def test_parameter_counts(shape: tuple[int, ...], classes: int, count: int) -> None:
    side = shape[1] // 4
    expected = (25 * shape[0] * 32 + 32) + (25 * 32 * 64 + 64) + linear(64 * side * side, 512) + linear(512, classes)
    assert parameters(FedAvgCNN(shape, classes)) == expected == count


def test_forward_pass() -> None:
    model: nn.Module = FedAvgCNN((1, 30, 28), 10)
    x = torch.randn(2, 1, 30, 28)
    layers = Layers(model)
    y = F.max_pool2d(F.relu(layers.convolution(x, padding=2)), 2)
    y = F.max_pool2d(F.relu(layers.convolution(y, padding=2)), 2)
    y = layers.linear(F.relu(layers.linear(y.flatten(1))))
    assert layers.used_up()
    torch.testing.assert_close(model(x), y)


def test_images_that_are_too_small() -> None:
    assert FedAvgCNN((1, 4, 4), 10)(torch.zeros(1, 1, 4, 4)).shape == (1, 10)
    with pytest.raises(ModelError, match="4x4 pixels"):
        FedAvgCNN((1, 3, 28), 10)
