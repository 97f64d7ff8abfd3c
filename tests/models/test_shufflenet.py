"""ShuffleNetV2: counts by arithmetic and from torchvision, and a literal forward pass."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models.shufflenet import shufflenet_v2, shufflenet_v2_trunk

from .counting import Layers, linear, multiply_adds, normalised, parameters, unsettle

STAGES = ((24, 116, 4), (116, 232, 8), (232, 464, 4))  # channels before and after, units: the paper's table 5, 1x


def depthwise(channels: int) -> int:
    """A 3x3 filter for each channel, and the batch normalisation after it."""
    return 9 * channels + 2 * channels


def trunk_weights(channels: int) -> int:
    total = normalised(3, channels, 24) + normalised(1, 464, 1024)
    for before, after, units in STAGES:
        half = after // 2
        total += depthwise(before) + normalised(1, before, half)
        total += normalised(1, before, half) + depthwise(half) + normalised(1, half, half)
        total += (units - 1) * (normalised(1, half, half) + depthwise(half) + normalised(1, half, half))
    return total


def test_the_original_for_imagenet() -> None:
    original = nn.Sequential(shufflenet_v2_trunk(3), nn.Linear(1024, 1000))
    assert parameters(original) == trunk_weights(3) + linear(1024, 1000) == 2_278_604
    assert round(multiply_adds(original, 3, 224, 224) / 1e9, 3) == 0.145  # torchvision's "GFLOPS"; the paper has 0.146


@pytest.mark.parametrize(
    ("shape", "classes", "width", "count"),
    [
        ((3, 32, 32), 10, 512, 1_783_534),
        ((1, 28, 28), 10, 512, 1_783_102),
        ((1, 28, 28), 26, 512, 1_791_310),
        ((3, 32, 32), 100, 500, 1_816_204),
    ],
)
def test_parameter_counts(shape: tuple[int, ...], classes: int, width: int, count: int) -> None:
    expected = trunk_weights(shape[0]) + linear(1024, width) + linear(width, classes)
    assert parameters(shufflenet_v2(shape, classes, width)) == expected == count


def literal(model: nn.Module, x: Tensor) -> Tensor:
    layers = Layers(model)

    def pointwise(x: Tensor) -> Tensor:
        return F.relu(layers.norm(layers.convolution(x)))

    def depthwise(x: Tensor, stride: int) -> Tensor:
        return layers.norm(layers.convolution(x, stride, 1, groups=x.shape[1]))

    x = F.max_pool2d(F.relu(layers.norm(layers.convolution(x, 2, 1))), 3, 2, 1)
    for _, after, units in STAGES:
        for unit in range(units):
            if unit == 0:
                left = pointwise(depthwise(x, 2))
                right = pointwise(depthwise(pointwise(x), 2))
            else:
                left, right = x[:, : after // 2], x[:, after // 2 :]
                right = pointwise(depthwise(pointwise(right), 1))
            x = torch.empty(x.shape[0], after, *left.shape[2:], dtype=x.dtype)
            x[:, 0::2], x[:, 1::2] = left, right
    x = pointwise(x).mean((2, 3))
    x = layers.linear(F.relu(layers.linear(x)))
    assert layers.used_up()
    return x


@pytest.mark.parametrize("side", [28, 40])
def test_forward_pass(side: int) -> None:
    model = unsettle(shufflenet_v2((2, side, side), 5))
    x = torch.randn(2, 2, side, side, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(model(x), literal(model, x))


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match=r"ShuffleNetV2 takes images \[channels, height, width\], not .* \[784\]"):
        shufflenet_v2((784,), 10)
