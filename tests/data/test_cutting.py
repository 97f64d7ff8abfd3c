"""Cutting by weights."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from potluck.data.cutting import deal, ends, gather

weights = st.lists(st.integers(0, 1 << 26), min_size=1, max_size=30).filter(any)


@given(total=st.integers(0, 100_000), weights=weights)
def test_pieces_add_up_and_are_proportional(total: int, weights: list[int]) -> None:
    cuts = ends(total, torch.tensor(weights))
    for cut, cumulative in zip(cuts.tolist(), itertools.accumulate(weights), strict=True):
        assert abs(cut - total * cumulative / sum(weights)) <= 0.5 + 1e-9
    pieces = cuts.diff(prepend=torch.tensor([0])).tolist()
    assert sum(pieces) == total
    for piece, weight in zip(pieces, weights, strict=True):
        assert abs(piece - total * weight / sum(weights)) <= 1
        assert piece >= 0
        assert weight or not piece


def test_deal_leaves_out_only_classes_nobody_weighs() -> None:
    labels = torch.tensor([2, 0, 1, 0, 2, 2, 0, 0])
    owner = deal(labels, torch.tensor([[1, 0, 2], [3, 0, 1]]), key=5)
    assert owner[labels == 0].sort().values.tolist() == [0, 1, 1, 1]
    assert owner[labels == 1].tolist() == [-1]
    assert owner[labels == 2].sort().values.tolist() == [0, 0, 1]


def test_deal_shuffles_within_a_class() -> None:
    one = deal(torch.zeros(100, dtype=torch.int64), torch.ones(2, 1, dtype=torch.int64), key=1)
    two = deal(torch.zeros(100, dtype=torch.int64), torch.ones(2, 1, dtype=torch.int64), key=2)
    assert 30 < (one == two).sum() < 70
    assert 10 < one[:50].sum() < 40


def test_gathered_tensors_own_their_memory() -> None:
    for piece in gather(torch.arange(100) % 10, 10):
        assert piece.untyped_storage().nbytes() == piece.nbytes
