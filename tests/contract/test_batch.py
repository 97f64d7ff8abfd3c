"""What a loss sees of the data."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from potluck.contract import Batch


def batch(weight: list[float], y: list[int] | None = None, views: int = 1) -> Batch:
    size = len(weight)
    inputs = tuple(torch.full((size, 2), float(view)) for view in range(views))
    labels = torch.tensor(y if y is not None else [0] * size)
    return Batch(inputs, labels, torch.tensor(weight, dtype=torch.float64), torch.arange(size), torch.arange(size))


def test_x_is_the_first_view() -> None:
    both = batch([1, 1], views=2)
    assert both.x is both.views[0]
    assert not torch.equal(both.views[0], both.views[1])


def test_the_mean_is_over_real_samples() -> None:
    values = torch.tensor([1, 3, 100, 8], dtype=torch.float64)
    assert float(batch([1, 1, 0, 1]).mean(values)) == 4
    assert float(batch([1, 1, 1, 1]).mean(values)) == 28


def test_padding_gets_no_gradient_and_none_from_it() -> None:
    values = torch.tensor([1.0, 3.0, 100.0], dtype=torch.float64, requires_grad=True)
    batch([1, 1, 0]).mean(values).backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert values.grad.tolist() == [0.5, 0.5, 0]


def test_nothing_but_padding_has_mean_zero() -> None:
    assert float(batch([0, 0]).mean(torch.ones(2, dtype=torch.float64))) == 0


def test_cross_entropy_is_that_of_the_real_samples() -> None:
    logits = torch.tensor([[1.0, 2, 0], [0, 0, 3], [9, 9, 9], [1, 1, 0]], dtype=torch.float64)
    padded = batch([1, 1, 0, 1], y=[2, 1, 0, 0])
    rows = torch.tensor([0, 1, 3])
    expected = F.cross_entropy(logits[rows], padded.y[rows])
    assert torch.allclose(padded.cross_entropy(logits), expected, rtol=1e-15)
