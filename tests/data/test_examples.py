"""Rows that many clients share."""

from __future__ import annotations

import pytest
import torch

from potluck.data import Examples
from potluck.errors import DataError

X, Y = torch.arange(12.0).reshape(6, 2), torch.tensor([0, 1, 2, 0, 1, 2], dtype=torch.int32)


def test_rows_of_rows() -> None:
    mine = Examples(X, Y, rows=torch.tensor([5, 2, 0]))
    fewer = mine.only(torch.tensor([2, 0]))
    assert (len(Examples(X, Y)), len(mine), len(fewer)) == (6, 3, 2)
    assert mine.y.tolist() == [2, 2, 0]
    assert fewer.y.tolist() == [0, 2]
    x, y = fewer.take(torch.tensor([1, 1]))
    assert x.tolist() == [[10.0, 11.0]] * 2
    assert y.tolist() == [2, 2]
    assert y.dtype == torch.int64
    assert Examples(X, Y).only(torch.tensor([3])).y.tolist() == [0]


def test_inputs_and_labels_are_those_of_these_samples_alone() -> None:
    mine = Examples(X, Y, rows=torch.tensor([5, 2, 0]))
    assert torch.equal(mine.x, X[[5, 2, 0]])
    assert mine.y.tolist() == [2, 2, 0]
    assert len(mine.x) == len(mine.y) == len(mine)
    assert (mine.shape, mine.device) == ((2,), torch.device("cpu"))
    everything = Examples(X, Y)
    assert everything.x is X
    assert everything.y is Y


def test_nothing_is_copied() -> None:
    assert Examples(X, Y).only(torch.tensor([1])).only(torch.tensor([0])).whole_x is X


def test_a_source_moves_to_a_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []
    elsewhere = torch.device("meta")  # no GPU is needed: a copy stands for what would arrive there

    def to(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        copied.append(tensor)
        assert device == elsewhere
        return tensor.clone()

    rows = [torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([5, 4, 3])]
    clients = [Examples(X, Y, rows=mine) for mine in rows]
    monkeypatch.setattr(torch.Tensor, "to", to)
    moved: dict[int, torch.Tensor] = {}
    there = [client.to(elsewhere, moved) for client in clients]
    assert [id(tensor) for tensor in copied] == [id(tensor) for tensor in (X, Y, *rows)]
    assert all(client.whole_x is there[0].whole_x and client.whole_y is there[0].whole_y for client in there)
    assert there[0].whole_x is not X and [client.x.tolist() for client in there] == [X[mine].tolist() for mine in rows]
    assert Examples(X, Y).to(torch.device("cpu")).x is X


def test_what_does_not_belong_together() -> None:
    with pytest.raises(DataError, match="6 inputs come with 5 labels"):
        Examples(X, Y[:5])
    with pytest.raises(DataError, match="vector of whole numbers"):
        Examples(X, Y.float())
    with pytest.raises(DataError, match="vector of whole numbers"):
        Examples(X, Y[:, None])
