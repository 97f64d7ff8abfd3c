"""ResNet-18: counts by arithmetic and from torchvision, a literal forward pass, and the size FedClassAvg printed."""

from __future__ import annotations

import io

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models.resnet import resnet18, resnet18_trunk

from .counting import Layers, linear, multiply_adds, normalised, parameters, unsettle


def trunk_weights(channels: int) -> int:
    """From the table of the paper: two blocks of two 3x3 convolutions per stage, a 1x1 where the width changes."""
    total = normalised(7, channels, 64) + 4 * normalised(3, 64, 64)
    for before, filters in ((64, 128), (128, 256), (256, 512)):
        total += normalised(3, before, filters) + 3 * normalised(3, filters, filters) + normalised(1, before, filters)
    return total


def test_the_original_for_imagenet() -> None:
    original = nn.Sequential(resnet18_trunk(3), nn.Linear(512, 1000))
    assert parameters(original) == trunk_weights(3) + linear(512, 1000) == 11_689_512
    assert round(multiply_adds(original, 3, 224, 224) / 1e9, 2) == 1.81  # torchvision's "GFLOPS"


@pytest.mark.parametrize(
    ("shape", "classes", "width", "count"),
    [
        ((3, 32, 32), 10, 512, 11_444_298),
        ((3, 32, 32), 100, 500, 11_483_112),
        ((1, 28, 28), 10, 512, 11_438_026),
        ((1, 28, 28), 26, 512, 11_446_234),
    ],
)
def test_parameter_counts(shape: tuple[int, ...], classes: int, width: int, count: int) -> None:
    expected = trunk_weights(shape[0]) + linear(512, width) + linear(width, classes)
    assert parameters(resnet18(shape, classes, width)) == expected == count


def test_the_size_that_fedclassavg_printed() -> None:
    # Its table 5: 43.73 MB, the size of the saved state_dict. Without the 512 units in between it would be 42.7.
    saved = io.BytesIO()
    torch.save(resnet18((3, 32, 32), 10).state_dict(), saved)
    assert saved.tell() / 2**20 == pytest.approx(43.73, abs=0.02)


def literal(model: nn.Module, x: Tensor) -> Tensor:
    layers = Layers(model)
    x = F.max_pool2d(F.relu(layers.norm(layers.convolution(x, 2, 3))), 3, 2, 1)
    for strides in ((1, 1), (2, 1), (2, 1), (2, 1)):
        for stride in strides:
            y = F.relu(layers.norm(layers.convolution(x, stride, 1)))
            y = layers.norm(layers.convolution(y, 1, 1))
            x = F.relu(y + (x if stride == 1 else layers.norm(layers.convolution(x, 2))))
    x = layers.linear(F.relu(layers.linear(x.mean((2, 3)))))
    assert layers.used_up()
    return x


@pytest.mark.parametrize("side", [28, 40])
def test_forward_pass(side: int) -> None:
    model = unsettle(resnet18((2, side, side), 5))
    x = torch.randn(2, 2, side, side, dtype=torch.float64)
    torch.testing.assert_close(model(x), literal(model, x))


def test_small_images_are_not_enlarged() -> None:
    sizes: list[int] = []
    trunk = resnet18_trunk(3).eval()
    trunk[-2].register_forward_hook(lambda _layer, args, _output: sizes.append(args[0].shape[-1]))
    for side in (28, 32, 64):
        trunk(torch.zeros(1, 3, side, side))
    assert sizes == [1, 1, 2]


def test_initial_weights_are_he_normal() -> None:
    first = resnet18_trunk(3)[0]
    assert isinstance(first, nn.Conv2d)
    assert float(first.weight.detach().std()) == pytest.approx((2 / (7 * 7 * 64)) ** 0.5, rel=0.05)


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match=r"ResNet-18 takes images \[channels, height, width\], not .* \[784\]"):
        resnet18((784,), 10)
    with pytest.raises(ModelError, match="ResNet-18 needs at least one class"):
        resnet18((3, 32, 32), 0)
    with pytest.raises(ModelError, match="at least one channel and 1x1 pixels"):
        resnet18((3, 32, 0), 10)
