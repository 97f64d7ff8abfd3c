"""The papers' five networks: parameter counts known from their released code, and the shapes they take."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.errors import ModelError
from potluck.models.cnn import CNN

from .counting import multiply_adds, parameters


@pytest.mark.parametrize(
    ("shape", "classes", "counts"),
    [
        ((3, 32, 32), 10, [2_621_558, 1_815_142, 1_320_558, 1_060_358, 670_058]),
        ((3, 32, 32), 100, [2_666_648, 1_860_232, 1_365_648, 1_105_448, 715_148]),
        ((1, 28, 28), 10, [2_044_758, 1_526_342, 1_031_758, 829_158, 525_258]),
        ((1, 32, 32), 10, [2_620_758, 1_814_342, 1_319_758, 1_059_558, 669_258]),
    ],
)
def test_parameter_counts(shape: tuple[int, ...], classes: int, counts: list[int]) -> None:
    assert [parameters(CNN(number, shape, classes)) for number in range(1, 6)] == counts


def test_multiplications_of_a_forward_pass() -> None:
    expected = [4_825_800, 3_385_800, 3_525_800, 3_265_800, 2_875_800]
    assert [multiply_adds(CNN(number, (3, 32, 32), 10), 3, 32, 32) for number in range(1, 6)] == expected


def test_forward_is_the_network_of_the_papers() -> None:
    torch.manual_seed(0)
    model = CNN(3, (3, 32, 32), 10)
    x = torch.randn(2, 3, 32, 32)
    literal = nn.Sequential(
        model.conv1, nn.ReLU(), nn.MaxPool2d(2), model.conv2, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        model.fc1, nn.ReLU(), model.fc2, nn.ReLU(), model.fc3,
    )  # fmt: skip
    torch.testing.assert_close(model(x), literal(x))


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 17, 40), (4, 64, 33)])
def test_any_image_from_16x16_fits(shape: tuple[int, ...]) -> None:
    assert CNN(5, shape, 7)(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize("shape", [(3, 15, 32), (3, 32, 15), (0, 32, 32)])
def test_images_that_are_too_small(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="at least one channel and 16x16 pixels"):
        CNN(1, shape, 10)


@pytest.mark.parametrize("shape", [(784,), (32, 32), (1, 3, 32, 32)])
def test_inputs_that_are_no_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"takes images \[channels, height, width\]"):
        CNN(1, shape, 10)


def test_what_does_not_exist() -> None:
    with pytest.raises(ModelError, match="no CNN-6"):
        CNN(6, (3, 32, 32), 10)
    with pytest.raises(ModelError, match="at least one class"):
        CNN(1, (3, 32, 32), 0)
