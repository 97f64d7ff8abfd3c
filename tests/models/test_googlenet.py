"""GoogLeNet: counts by arithmetic and from torchvision, a literal forward pass, and no auxiliary outputs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models.googlenet import googlenet, googlenet_trunk

from .counting import Layers, linear, multiply_adds, normalised, parameters, unsettle

# The paper's table 1: depth of the input; 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool projection.
INCEPTION = (
    (192, 64, 96, 128, 16, 32, 32),
    (256, 128, 128, 192, 32, 96, 64),
    (480, 192, 96, 208, 16, 48, 64),
    (512, 160, 112, 224, 24, 64, 64),
    (512, 128, 128, 256, 24, 64, 64),
    (512, 112, 144, 288, 32, 64, 64),
    (528, 256, 160, 320, 32, 128, 128),
    (832, 256, 160, 320, 32, 128, 128),
    (832, 384, 192, 384, 48, 128, 128),
)


def trunk_weights(channels: int) -> int:
    total = normalised(7, channels, 64) + normalised(1, 64, 64) + normalised(3, 64, 192)
    for depth, ones, less_three, three, less_five, five, pooled in INCEPTION:
        total += normalised(1, depth, ones) + normalised(1, depth, pooled)
        total += normalised(1, depth, less_three) + normalised(3, less_three, three)
        total += normalised(1, depth, less_five) + normalised(3, less_five, five)  # torchvision: 3x3 for 5x5
    return total


def auxiliary(depth: int) -> nn.Module:
    """An auxiliary classifier of the original, which we do not have."""
    return nn.ModuleList(
        [nn.Conv2d(depth, 128, 1, bias=False), nn.BatchNorm2d(128), nn.Linear(128 * 4 * 4, 1024), nn.Linear(1024, 1000)]
    )


def test_the_original_for_imagenet() -> None:
    original = nn.Sequential(googlenet_trunk(3), nn.Linear(1024, 1000))
    assert parameters(original) == trunk_weights(3) + linear(1024, 1000) == 6_624_904
    assert parameters(original) + parameters(auxiliary(512)) + parameters(auxiliary(528)) == 13_004_888
    assert round(multiply_adds(original, 3, 224, 224) / 1e9, 3) == 1.498  # torchvision's "GFLOPS"


@pytest.mark.parametrize(
    ("shape", "classes", "width", "count"),
    [
        ((3, 32, 32), 10, 512, 6_129_834),
        ((1, 28, 28), 10, 512, 6_123_562),
        ((1, 28, 28), 26, 512, 6_131_770),
        ((3, 32, 32), 100, 500, 6_162_504),
    ],
)
def test_parameter_counts(shape: tuple[int, ...], classes: int, width: int, count: int) -> None:
    expected = trunk_weights(shape[0]) + linear(1024, width) + linear(width, classes)
    assert parameters(googlenet(shape, classes, width)) == expected == count


def literal(model: nn.Module, x: Tensor) -> Tensor:
    layers = Layers(model)

    def convolve(x: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
        return F.relu(layers.norm(layers.convolution(x, stride, padding), eps=1e-3))

    def inception(x: Tensor) -> Tensor:
        ones = convolve(x)
        threes = convolve(convolve(x), padding=1)
        fives = convolve(convolve(x), padding=1)
        return torch.cat([ones, threes, fives, convolve(F.max_pool2d(x, 3, 1, 1))], 1)

    x = F.max_pool2d(convolve(x, 2, 3), 3, 2, ceil_mode=True)
    x = F.max_pool2d(convolve(convolve(x), padding=1), 3, 2, ceil_mode=True)
    for modules, pooling in ((2, 3), (5, 2), (2, None)):
        for _ in range(modules):
            x = inception(x)
        x = x if pooling is None else F.max_pool2d(x, pooling, 2, ceil_mode=True)
    x = layers.linear(F.relu(layers.linear(x.mean((2, 3)))))
    assert layers.used_up()
    return x


@pytest.mark.parametrize("side", [28, 40])
def test_forward_pass(side: int) -> None:
    model = unsettle(googlenet((2, side, side), 5))
    x = torch.randn(2, 2, side, side, dtype=torch.float64)
    torch.testing.assert_close(model(x), literal(model, x))


def test_one_tensor_in_training_too() -> None:
    model = googlenet((1, 28, 28), 5).train()
    output = model(torch.randn(2, 1, 28, 28))
    assert isinstance(output, Tensor)
    assert output.shape == (2, 5)
    torch.autograd.backward(output.sum())
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_dropout_before_the_representation() -> None:
    (dropout,) = [layer for layer in googlenet((1, 28, 28), 5).modules() if isinstance(layer, nn.Dropout)]
    assert dropout.p == 0.2


def test_initial_weights() -> None:
    first = next(layer for layer in googlenet_trunk(3).modules() if isinstance(layer, nn.Conv2d))
    assert float(first.weight.detach().std()) == pytest.approx(0.01, rel=0.05)


def test_the_smallest_images() -> None:
    assert googlenet((1, 15, 15), 3).eval()(torch.zeros(1, 1, 15, 15)).shape == (1, 3)
    with pytest.raises(ModelError, match=r"GoogLeNet cannot take .* 15x15 pixels"):
        googlenet((1, 14, 28), 3)
    with pytest.raises(RuntimeError, match="too small"):
        googlenet_trunk(1).eval()(torch.zeros(1, 1, 14, 28))
