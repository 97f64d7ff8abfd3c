"""Max-pooling on a CPU equals PyTorch's own, and so do its gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.engines.cpu import ForCPU

OURS = "_PoolingBackward"


def images(n: int = 32, channels: int = 16, height: int = 28, width: int = 24, distinct: int = 20) -> Tensor:
    """Few different numbers, so that windows have several that are largest."""
    drawn = torch.randint(-distinct, distinct, (n, channels, height, width), generator=torch.Generator().manual_seed(0))
    return drawn.to(torch.bfloat16).contiguous(memory_format=torch.channels_last).requires_grad_()


@pytest.mark.parametrize("distinct", [2, 1000])
def test_equal_to_pytorchs_own(distinct: int) -> None:
    x = images(distinct=distinct)
    expected = F.max_pool2d(x, 2)
    with ForCPU():
        result = torch.nn.MaxPool2d(2)(x)
    assert result.grad_fn is not None
    assert result.grad_fn.name() == OURS
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(result, expected)
    slope = torch.randn_like(expected).contiguous()  # which does not lie channels-last
    gradient, known = (torch.autograd.grad(y, x, slope)[0] for y in (result, expected))
    assert torch.equal(gradient, known)


def test_what_is_no_number_stays() -> None:
    x = images().detach()
    x[0, 0, 0, 0] = torch.nan
    with ForCPU():
        result = F.max_pool2d(x, 2)
    assert result.isnan().sum() == result[0, 0, 0, 0].isnan() == 1


def test_gradients_of_gradients() -> None:
    x, y = (images().detach().requires_grad_() for _ in range(2))
    with ForCPU():
        ours = F.max_pool2d(x.square(), 2)
    both = []
    for inputs, pooled in ((x, ours), (y, F.max_pool2d(y.square(), 2))):
        (slope,) = torch.autograd.grad(pooled.square().sum(), inputs, create_graph=True)
        both.append(torch.autograd.grad(slope.square().sum(), inputs)[0])
    assert torch.equal(*both)


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ({}, {"kernel_size": 3}),
        ({}, {"kernel_size": 2, "stride": 1}),
        ({}, {"kernel_size": 2, "padding": 1}),
        ({}, {"kernel_size": (2, 1)}),
        ({"height": 29}, {"kernel_size": 2, "ceil_mode": True}),
        ({"width": 25}, {"kernel_size": 2}),
        ({"channels": 40}, {"kernel_size": 2}),
        ({"n": 1}, {"kernel_size": 2}),
    ],
)
def test_any_other_is_left_to_pytorch(shape: dict[str, int], settings: dict[str, Any]) -> None:
    x = images(**shape)
    with ForCPU():
        result = F.max_pool2d(x, **settings)
    assert result.grad_fn is not None
    assert result.grad_fn.name() != OURS
    assert torch.equal(result, F.max_pool2d(x, **settings))


def test_other_types_are_left_to_pytorch() -> None:
    with ForCPU():
        result = F.max_pool2d(images().float(), 2)
    assert result.grad_fn is not None
    assert result.grad_fn.name() != OURS
