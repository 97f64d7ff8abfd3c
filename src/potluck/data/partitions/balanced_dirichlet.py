"""Clients of equal size whose mixtures of classes are drawn from a Dirichlet distribution (FedClassAvg's "Dir")."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from potluck.data.cutting import cut, deal
from potluck.data.partitions.dirichlet import concentration, whole
from potluck.data.partitions.labels import Labels, class_counts
from potluck.draws import fold, shares

_ROUNDS = 1000
_TINY = 1e-9
"""What every client may get of every class, so that equal sizes can be reached whatever was drawn."""


def balanced_dirichlet(argument: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, Tensor]:
    """All samples are dealt, every class by shares from Dirichlet(``argument``), and every client gets equally many.

    The shares are rescaled, clients and classes in turn, until everybody has the same size and every class is dealt
    entirely (Sinkhorn, 1964); what rounding then leaves is levelled sample by sample, so that sizes differ by one at
    most. The same shares are used for all pools. (FedClassAvg's released code stops dealing to clients that have
    their part already, which makes sizes similar, and draws test samples with replacement.)
    """
    alpha = concentration(argument, f"balanced-dirichlet:{argument}" if argument else "balanced-dirichlet")
    drawn = shares(fold(key, "shares"), alpha, classes, clients)
    train = class_counts(labels["train"], classes)
    weights = whole(_balanced(drawn, train)).T
    return {
        pool: deal(y, _level(class_counts(y, classes), weights), fold(key, "deal", pool)) for pool, y in labels.items()
    }


def _balanced(drawn: Tensor, counts: Tensor) -> Tensor:
    """The shares [classes, clients] rescaled so that clients get equally many of ``counts`` samples per class."""
    held = drawn.numpy() + _TINY
    sums = counts.numpy() / counts.sum().item()  # in float64, or the sizes below would never be near enough to 1
    held *= sums[:, None]
    present = sums > 0
    for _ in range(_ROUNDS):
        sizes = held[present].sum(0) * held.shape[1]  # 1 for everybody, in the end
        if np.abs(sizes - 1).max() < _TINY:
            break
        held /= sizes
        held[present] *= (sums[present] / held[present].sum(1))[:, None]
    held[~present] = 1.0
    return torch.from_numpy(held / held.sum(1, keepdims=True))


def _level(counts: Tensor, weights: Tensor) -> Tensor:
    """How many samples of each class every client gets: near its share, and equally many in all."""
    clients = len(weights)
    ideal = (counts * weights / weights.sum(0)).numpy()
    pieces = cut(counts, weights).numpy()
    target = cut(counts.sum(), torch.ones(clients, dtype=torch.int64)).numpy()
    surplus = pieces.sum(1) - target
    takers = iter(np.repeat(np.arange(clients), np.maximum(-surplus, 0)))
    for giver in np.repeat(np.arange(clients), np.maximum(surplus, 0)):
        taker = next(takers)
        # Of what the giver has most above its share, and the taker most below.
        excess = (pieces[giver] - ideal[giver]) - (pieces[taker] - ideal[taker])
        label = np.where(pieces[giver] > 0, excess, -np.inf).argmax()
        pieces[giver, label] -= 1
        pieces[taker, label] += 1
    return torch.from_numpy(pieces)
