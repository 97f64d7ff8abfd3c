"""Dealing samples by weight, class by class, so that nothing is lost: what splits and partitions have in common."""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.draws import permutation


def ends(total: int | Tensor, weights: Tensor) -> Tensor:
    """Cut ``total`` things into pieces in proportion to whole-number ``weights``: where each piece ends.

    It is the cumulative sums that are rounded, so the pieces add up to ``total`` and none is off by one or more.
    Columns of weights cut one total each.

    >>> ends(10, torch.tensor([1, 1, 1])).tolist(), ends(1000, torch.tensor([8, 1, 1])).tolist()
    ([3, 7, 10], [800, 900, 1000])
    """
    cumulative = weights.cumsum(0)
    whole = cumulative[-1]
    return (2 * total * cumulative + whole) // (2 * whole)


def cut(total: int | Tensor, weights: Tensor) -> Tensor:
    """The sizes of the pieces that :func:`ends` cuts.

    >>> cut(10, torch.tensor([1, 1, 1])).tolist()
    [3, 4, 3]
    """
    return ends(total, weights).diff(dim=0, prepend=torch.zeros_like(weights[:1]))


def deal(labels: Tensor, weights: Tensor, key: int) -> Tensor:
    """Decide who gets each sample: every class is shuffled and cut in proportion to its column of weights.

    Args:
        labels: The class of each sample.
        weights: Whole numbers of shape [owners, classes].
        key: What the shuffling is drawn from.

    Returns:
        The owner of each sample, -1 where no owner has a weight for its class.
    """
    grouped = shuffle_by_class(labels, key)
    counts = torch.bincount(labels, minlength=weights.shape[1]).tolist()
    owner = torch.full_like(labels, -1)
    for members, weight in zip(torch.split(grouped, counts), weights.T, strict=True):
        if weight.any():
            owner[members] = torch.searchsorted(ends(len(members), weight), torch.arange(len(members)), right=True)
    return owner


def shuffle_by_class(labels: Tensor, key: int) -> Tensor:
    """A random order of the samples in which the classes come one after another."""
    shuffled = permutation(key, len(labels))
    return shuffled[torch.argsort(labels[shuffled], stable=True)]


def gather(owner: Tensor, owners: int) -> list[Tensor]:
    """The samples of each owner, in ascending order.

    >>> gather(torch.tensor([1, 0, -1, 1]), 3)
    [tensor([1]), tensor([0, 3]), tensor([], dtype=torch.int64)]
    """
    counts = torch.bincount(owner + 1, minlength=owners + 1).tolist()
    _, *pieces = torch.split(torch.argsort(owner, stable=True), counts)  # the first are nobody's
    # Views would drag the memory of all owners along wherever one of them is pickled.
    return [piece.clone() for piece in pieces]
