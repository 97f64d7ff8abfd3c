"""Low-rank parts: as short as promised, as near as promised, and never wrong when put together."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from potluck.algorithms.parts.low_rank import Shortener, restored, shortened
from potluck.errors import PayloadError


def by_svd(matrix: Tensor, energy: float) -> tuple[Tensor, int]:
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    for rank in range(1, len(values) + 1):
        if values[:rank].square().sum() >= energy * values.square().sum():
            break
    return left[:, :rank] * values[:rank] @ right[:rank], rank


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.floats(0.3, 0.99), st.integers(0, 999))
def test_as_a_truncated_svd(rows: int, columns: int, inner: int, energy: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    numbers = {"generator": generator, "dtype": torch.float64}
    matrix = torch.randn(rows, inner, **numbers) @ torch.randn(inner, columns, **numbers)  # type: ignore[call-overload]
    sent = shortened({"w": matrix}, energy)
    expected, rank = by_svd(matrix, energy)
    assert sum(tensor.numel() for tensor in sent.values()) <= matrix.numel()  # never longer than dense
    if rank * (rows + columns) < rows * columns:
        assert sent["w:left"].shape == (rows, rank)
        torch.testing.assert_close(restored(sent)["w"], expected, rtol=1e-9, atol=1e-9)
    else:
        assert torch.equal(sent["w"], matrix)


def test_a_flat_spectrum_is_not_sent_as_nothing() -> None:
    """The known implementations keep rank 0 of it: the tensor arrives as zeros."""
    matrix = torch.linalg.qr(torch.randn(10, 500, dtype=torch.float64).T)[0].T
    assert torch.equal(restored(shortened({"w": matrix}, 0.95))["w"], matrix)


def test_zeros_stay_zeros() -> None:
    sent = shortened({"w": torch.zeros(20, 30)}, 0.95)
    assert sent["w:left"].shape == (20, 1)
    assert torch.equal(restored(sent)["w"], torch.zeros(20, 30))


def test_convolutions_and_vectors() -> None:
    kernel = torch.randn(16, 1, 1, 1) * torch.randn(1, 4, 5, 5)
    sent = shortened({"conv": kernel, "bias": torch.ones(3)}, 0.9)
    assert sent["conv:right"].shape == (1, 4, 5, 5)
    back = restored(sent)
    torch.testing.assert_close(back["conv"], kernel)
    assert torch.equal(back["bias"], torch.ones(3))


@pytest.mark.parametrize(
    "tensors",
    [
        {"w:left": torch.ones(3, 2)},
        {"w:right": torch.ones(2, 3)},
        {"w:left": torch.ones(3, 2), "w:right": torch.ones(1, 3)},
        {"w:left": torch.ones(3), "w:right": torch.ones(3)},
        {"w:left": torch.ones(3, 2), "w:right": torch.ones(2, 3).double()},
        {"w:left": torch.ones(3, 2), "w:right": torch.ones(2, 3), "w": torch.ones(3, 3)},
        {"w": torch.ones(3, 3), "w:right": torch.ones(2, 3)},
    ],
)
def test_parts_that_do_not_fit(tensors: dict[str, Tensor]) -> None:
    with pytest.raises(PayloadError, match=r"w"):
        restored(tensors)


@pytest.mark.parametrize("name", ["w", "other"])
def test_parts_are_not_multiplied_out_where_something_else_is_expected(name: str) -> None:
    """A few megabytes that would make up 4 TiB."""
    tensors = {f"{name}:left": torch.ones(1 << 20, 1), f"{name}:right": torch.ones(1, 1 << 20)}
    with pytest.raises(PayloadError, match=rf"two parts of '{name}' make up shape \(1048576, 1048576\), expected"):
        restored(tensors, {"w": torch.ones(3, 3)})


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_stay_to_be_refused(odd: float) -> None:
    matrix = torch.ones(20, 30)
    matrix[3, 4] = odd
    assert list(shortened({"w": matrix}, 0.9)) == ["w"]


def test_what_was_asked_last_is_not_worked_out_again() -> None:
    short = Shortener()
    state = {"w": torch.ones(20, 30)}
    first = short(state, 0.9)
    assert short(dict(state), 0.9) is first
    assert short(state, 0.8) is not first
    again = short({"w": torch.ones(20, 30)}, 0.8)
    assert again is not first
