"""pFedES's extractor: the size it has in the paper, and the shape and sign of what it gives."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from potluck.errors import ModelError
from potluck.models import same_size_extractor


@pytest.mark.parametrize(
    ("shape", "sizes", "count"),
    [
        ((3, 32, 32), {}, 443),
        ((1, 28, 28), {}, 153),
        ((20,), {}, 168 + 180),
        ((3, 32, 32), {"hidden": 4}, 112 + 111),
        ((3, 32, 32), {"layers": 1}, 84),
        ((3, 32, 32), {"layers": 3}, 443 + 584),
    ],
)
def test_parameter_counts(shape: tuple[int, ...], sizes: dict[str, int], count: int) -> None:
    assert sum(parameter.numel() for parameter in same_size_extractor(shape, **sizes).parameters()) == count


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (2, 5, 9), (13,)])
def test_output_has_the_shape_of_the_input_and_no_negative_number(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, *shape)
    output = same_size_extractor(shape)(x)
    assert output.shape == x.shape
    assert output.min() == 0
    assert output.max() > 0


def test_it_is_the_extractor_of_the_paper() -> None:
    torch.manual_seed(0)
    extractor = same_size_extractor((3, 8, 8))
    weight1, bias1, weight2, bias2 = extractor.parameters()
    x = torch.randn(2, 3, 8, 8)
    literal = F.relu(F.conv2d(F.relu(F.conv2d(x, weight1, bias1, padding="same")), weight2, bias2, padding="same"))
    torch.testing.assert_close(extractor(x), literal)


@pytest.mark.parametrize(
    ("shape", "hidden", "layers"),
    [
        ((), 8, 2),
        ((4, 4), 8, 2),
        ((1, 2, 3, 4), 8, 2),
        ((0, 8, 8), 8, 2),
        ((3, 8, 0), 8, 2),
        ((3,), 0, 2),
        ((3,), 8, 0),
    ],
)
def test_what_has_no_extractor(shape: tuple[int, ...], hidden: int, layers: int) -> None:
    with pytest.raises(ModelError, match="no same-size extractor for inputs of shape"):
        same_size_extractor(shape, hidden, layers)
