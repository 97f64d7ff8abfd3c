"""Two classes for everyone, and as much of each as anybody else has (FedClassAvg's "skewed")."""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.data.cutting import deal
from potluck.data.partitions.labels import Labels, class_counts
from potluck.data.partitions.pathological import hold
from potluck.draws import fold
from potluck.errors import ConfigError, DataError


def two_classes(argument: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, Tensor]:
    """Every client holds two classes and equally many samples of both, in every pool as many as all others.

    FedClassAvg's released code draws two classes and then samples of them with replacement, so that clients share
    samples and hold some twice. Here classes are given out evenly, as in ``pathological``, and nobody shares a
    sample; how many there are for each is decided by the class with the fewest samples per holder. What is then left
    of other classes is nobody's: nothing, where classes are of equal size and twice the clients are a multiple of
    them.
    """
    if argument:
        raise ConfigError(
            f"partition 'two-classes' takes no argument, but {argument!r} was given: write 'two-classes'."
        )
    if classes < 2:
        raise DataError(f"partition 'two-classes' needs two classes or more, and there are {classes}.")
    held = hold(2, classes, clients, fold(key, "classes"))
    holders = class_counts(held.flatten(), classes)
    counts = class_counts(labels["train"], classes)
    if not (counts >= holders).all():
        scarce = int((counts - holders).argmin())
        raise DataError(
            f"partition 'two-classes' gives every client as much of each of its classes, and class {scarce} has "
            f"{int(counts[scarce])} training samples for {int(holders[scarce])} clients: use fewer clients, or "
            "'pathological:2', which cuts unevenly."
        )
    return {
        pool: _deal(y, held, holders, class_counts(y, classes), fold(key, "deal", pool)) for pool, y in labels.items()
    }


def _deal(y: Tensor, held: Tensor, holders: Tensor, counts: Tensor, key: int) -> Tensor:
    clients = len(held)
    each = int((counts[holders > 0] // holders[holders > 0]).min())
    pieces = torch.zeros(clients + 1, len(counts), dtype=torch.int64)
    pieces[:clients].scatter_(1, held, each)
    pieces[clients] = counts - pieces[:clients].sum(0)  # one more, who gets what is left
    owner = deal(y, pieces, key)
    return torch.where(owner == clients, -1, owner)
