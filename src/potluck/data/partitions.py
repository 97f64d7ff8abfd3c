"""Dealing the samples of each pool to clients.

A partition is a function from the labels of the pools to the owner of every sample; a new one is written below and
named in ``_PARTITIONS``. Train, validation and test samples of a client follow the same law, so that a client is
tested on what it trains for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from potluck.data.cutting import deal, gather
from potluck.draws import fold, permutation, spread, uniform
from potluck.errors import ConfigError, DataError, nearest

Labels = Mapping[str, Tensor]
# Takes the specification's argument (what follows the colon), the pools' labels, the numbers of classes and clients,
# and a key; gives for each pool the owner of every sample, -1 for nobody.
Partition = Callable[[str, Labels, int, int, int], dict[str, Tensor]]


def partition(spec: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, list[Tensor]]:
    """Deal every pool to the clients: for each pool, one tensor of positions within it per client.

    Args:
        spec: ``pathological:K``, every client holding K classes, or ``iid``.
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
    ['iid', 'pathological']
    """
    return sorted(_PARTITIONS)


def iid(argument: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, Tensor]:  # noqa: ARG001
    """Every client gets a random sample of each pool, their sizes differing by at most one."""
    if argument:
        raise ConfigError(f"partition 'iid' takes no argument, but {argument!r} was given: write 'iid'.")
    # The rank of a sample in a random order is as good a shuffle as the order itself.
    return {pool: permutation(fold(key, pool), len(y)) % clients for pool, y in labels.items()}


def pathological(argument: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, Tensor]:
    """Every client holds ``argument`` distinct classes (Shamsian et al., arXiv:2103.04628).

    Each class is cut among its holders by shares drawn from U(0.4, 0.6) and normalised, the same for all pools.
    Unlike in released implementations no client draws a class twice, nothing of a class is dropped, and the
    clients' classes need not divide evenly.
    """
    if not re.fullmatch("[0-9]{1,9}", argument) or int(argument) < 1:
        raise ConfigError(
            f"partition 'pathological:{argument}' needs the number of classes per client after the colon, "
            "as in 'pathological:2'."
        )
    per_client = int(argument)
    if per_client > classes:
        raise ConfigError(
            f"partition 'pathological:{per_client}' asks for {per_client} classes per client, but there are {classes}: "
            f"choose from 1 to {classes}."
        )
    held = hold(per_client, classes, clients, fold(key, "classes"))
    # U(0.4, 0.6) up to a factor, as whole numbers: 24 random bits above twice 2 ** 24.
    draws = uniform(spread(fold(key, "shares"), torch.arange(held.numel()))).reshape(held.shape)
    shares = (1 << 25) + (draws * (1 << 24)).to(torch.int64)
    weights = torch.zeros(clients, classes, dtype=torch.int64).scatter_(1, held, shares)
    return {pool: deal(y, weights, fold(key, "deal", pool)) for pool, y in labels.items()}


def hold(per_client: int, classes: int, clients: int, key: int) -> Tensor:
    """Choose ``per_client`` distinct classes for each client, all classes being held equally often up to one.

    A class begins with as many slots as clients shall hold it. Clients in turn take the classes with the most
    slots left, ties broken at random. That never fails: the slots left differ by at most one, before as after each
    turn, since those with more are taken first; and as they are a multiple of ``per_client``, either every class
    has a slot left or those that do have exactly one, and are at least ``per_client`` many.

    Returns:
        The classes of each client, of shape [clients, per_client].
    """
    slots, extra = divmod(per_client * clients, classes)
    left = torch.full((classes,), slots)
    left[permutation(fold(key, "extra"), classes)[:extra]] += 1
    held = torch.empty(clients, per_client, dtype=torch.int64)
    for client in range(clients):
        order = permutation(fold(key, client), classes)
        taken = order[left[order].argsort(descending=True, stable=True)[:per_client]]
        left[taken] -= 1
        held[client] = taken
    return held


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


_PARTITIONS: dict[str, Partition] = {"iid": iid, "pathological": pathological}
