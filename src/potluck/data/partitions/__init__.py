"""Dealing the samples of each pool to clients.

A partition is a function from the labels of the pools to the owner of every sample, in a file of its own and named in
``_PARTITIONS``. Train, validation and test samples of a client follow the same law, so that a client is tested on
what it trains for.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from potluck.data.cutting import gather
from potluck.data.partitions.balanced_dirichlet import balanced_dirichlet
from potluck.data.partitions.dirichlet import dirichlet
from potluck.data.partitions.iid import iid
from potluck.data.partitions.labels import Labels
from potluck.data.partitions.pathological import hold, pathological
from potluck.data.partitions.two_classes import two_classes
from potluck.draws import fold
from potluck.errors import ConfigError, DataError, nearest

__all__ = ["Labels", "hold", "names", "partition"]

# Takes the specification's argument (what follows the colon), the pools' labels, the numbers of classes and clients,
# and a key; gives for each pool the owner of every sample, -1 for nobody.
Partition = Callable[[str, Labels, int, int, int], dict[str, Tensor]]


def partition(spec: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, list[Tensor]]:
    """Deal every pool to the clients: for each pool, one tensor of positions within it per client.

    Args:
        spec: ``pathological:K``, every client holding K classes; ``dirichlet:GAMMA``, every class dealt by shares from
            a Dirichlet distribution (``dirichlet:GAMMA:MINIMUM`` for no client below a minimum of training samples);
            ``balanced-dirichlet:ALPHA`` and ``two-classes``, FedClassAvg's two, with clients of equal size; or
            ``iid``.
        labels: The labels of each pool, "train" among them.
        classes: How many classes there are.
        clients: How many clients there are.
        key: What the partition is drawn from.

    Raises:
        ConfigError: There is no such partition.
        DataError: The data do not suffice for it.

    >>> labels = {"train": torch.arange(12) % 3, "test": torch.arange(6) % 3}
    >>> mine = partition("pathological:2", labels, classes=3, clients=3, key=1)
    >>> [labels["train"][rows].unique().tolist() for rows in mine["train"]]
    [[0, 1], [1, 2], [0, 2]]
    """
    name, colon, argument = spec.partition(":")
    if name not in _PARTITIONS:
        raise ConfigError(nearest(name, _PARTITIONS, "partition"))
    if colon and not argument:
        raise ConfigError(f"partition {spec!r} ends in a colon: write what comes after it, or leave it out.")
    _check(labels, classes, clients)
    owners = _PARTITIONS[name](argument, labels, classes, clients, fold(key, "partition", name))
    dealt = {pool: gather(owner, clients) for pool, owner in owners.items()}
    empty = [client for client, rows in enumerate(dealt["train"]) if not len(rows)]
    if empty:
        raise DataError(
            f"partition {spec!r} leaves {len(empty)} of {clients} clients without a training sample (the first is "
            f"client {empty[0]}): use fewer clients, more data or another partition."
        )
    return dealt


def names() -> list[str]:
    """The partitions there are, without their arguments.

    >>> names()
    ['balanced-dirichlet', 'dirichlet', 'iid', 'pathological', 'two-classes']
    """
    return sorted(_PARTITIONS)


def _check(labels: Labels, classes: int, clients: int) -> None:
    if clients < 1:
        raise ConfigError(f"{clients} clients cannot share anything: use 1 or more.")
    if "train" not in labels:
        raise DataError("there is no pool 'train' to deal to the clients.")
    for pool, y in labels.items():
        if y.ndim != 1 or y.dtype != torch.int64:
            raise DataError(f"the labels of pool {pool!r} must be a vector of int64.")
        if len(y) and not 0 <= int(y.min()) <= int(y.max()) < classes:
            raise DataError(f"the labels of pool {pool!r} must be from 0 to {classes - 1}.")
    if clients > len(labels["train"]):
        raise DataError(
            f"{clients} clients cannot share {len(labels['train'])} training samples: "
            "use at most as many clients as there are samples."
        )


_PARTITIONS: dict[str, Partition] = {
    "balanced-dirichlet": balanced_dirichlet,
    "dirichlet": dirichlet,
    "iid": iid,
    "pathological": pathological,
    "two-classes": two_classes,
}
