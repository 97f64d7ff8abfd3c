"""MLPs for the rows of a table."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from potluck.errors import ModelError
from potluck.models.mlp import MLP

from .counting import linear, parameters


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 9), st.integers(1, 5))
def test_layers(hidden: list[int], features: int, classes: int) -> None:
    model = MLP(hidden, (features,), classes).double()
    widths = [features, *hidden, classes]
    assert parameters(model) == sum(map(linear, widths[:-1], widths[1:]))
    x = y = torch.randn(3, features, dtype=torch.float64)
    for layer in [layer for layer in model.modules() if isinstance(layer, nn.Linear)]:
        y = y @ layer.weight.T + layer.bias
        y = y if layer is model.head else y.clamp(min=0)
    torch.testing.assert_close(model(x), y)


def test_images_are_laid_out_as_rows() -> None:
    model = MLP([5], (2, 3, 4), 3)
    x = torch.randn(6, 2, 3, 4)
    torch.testing.assert_close(model(x), model(x.reshape(6, 24)))


@pytest.mark.parametrize(
    ("hidden", "shape", "classes"), [([], (3,), 2), ([0], (3,), 2), ([4], (0,), 2), ([4], (3,), 0)]
)
def test_nothing_of_something(hidden: list[int], shape: tuple[int, ...], classes: int) -> None:
    with pytest.raises(ModelError, match="no MLP with hidden widths"):
        MLP(hidden, shape, classes)
