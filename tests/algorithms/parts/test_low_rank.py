"""Low-rank parts: as short as promised, as near as promised, and never wrong when put together."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from potluck.algorithms.parts.low_rank import product, restored, shortened
from potluck.engines.threads import threads
from potluck.errors import PayloadError


def by_svd(matrix: Tensor, energy: float) -> tuple[Tensor, int]:
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    for rank in range(1, len(values) + 1):
        if values[:rank].square().sum() > energy * values.square().sum():
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


@pytest.mark.parametrize("rank", [0, 4, 100_000])
def test_parts_that_are_no_shorter_are_not_multiplied_out(rank: int) -> None:
    with pytest.raises(PayloadError, match=rf"'w' are of rank {rank}, and no shorter than \(8, 8\)"):
        restored({"w:left": torch.ones(8, rank), "w:right": torch.ones(rank, 8)}, {"w": torch.ones(8, 8)})


def test_exactly_that_share_is_not_enough() -> None:
    matrix = torch.diag(torch.tensor([2.0, 2.0, *[0.0] * 6]))
    assert shortened({"w": matrix}, 0.5)["w:left"].shape == (8, 2)


def test_products_are_the_same_bits_however_they_lie_and_however_many_threads_there_are() -> None:
    left, right = torch.randn(301, 9), torch.randn(9, 203)
    expected = product(left, right)
    torch.testing.assert_close(expected, left @ right)
    elsewhere = torch.zeros(9 * 203 + 1)[1:].view(9, 203).copy_(right)
    for threads_used in (1, 2):
        with threads(threads_used):
            assert torch.equal(product(left.T.contiguous().T, elsewhere), expected)
    in_order = [float(left[5, 0] * right[0, 7])]
    for rank in range(1, 9):
        in_order.append(float(torch.tensor(in_order[-1]) + left[5, rank] * right[rank, 7]))
    assert float(expected[5, 7]) == in_order[-1]
