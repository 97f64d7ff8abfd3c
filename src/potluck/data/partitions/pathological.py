"""A few classes for everyone (Shamsian et al., arXiv:2103.04628)."""

from __future__ import annotations

import re
import warnings

import torch
from torch import Tensor

from potluck.data.cutting import deal
from potluck.data.partitions.labels import Labels
from potluck.draws import fold, permutation, spread, uniform
from potluck.errors import ConfigError, DataWarning


def pathological(argument: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, Tensor]:
    """Every client holds ``argument`` distinct classes (Shamsian et al., arXiv:2103.04628).

    Each class is cut among its holders by shares drawn from U(0.4, 0.6) and normalised, the same for all pools.
    Unlike in released implementations no client draws a class twice, nothing of a class is dropped, and the
    clients' classes need not divide evenly.
    """
    if not re.fullmatch("[0-9]{1,9}", argument) or int(argument) < 1:
        spec = f"pathological:{argument}" if argument else "pathological"
        raise ConfigError(
            f"partition {spec!r} needs the number of classes per client after a colon, as in 'pathological:2'."
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
    owners = {pool: deal(y, weights, fold(key, "deal", pool)) for pool, y in labels.items()}
    if lacking := _lacking(owners, labels, classes, clients):
        least, most = min(lacking), max(lacking)
        span = f"{least}" if least == most else f"{least} to {most}"
        warnings.warn(
            f"partition 'pathological:{per_client}' leaves {len(lacking)} of {clients} clients without a test sample "
            f"of {span} of the classes that they train on: there are too few for all clients that hold a class. Use "
            "fewer clients, fewer classes per client, or a split with more test samples.",
            DataWarning,
            stacklevel=3,
        )
    return owners


def _lacking(owners: dict[str, Tensor], labels: Labels, classes: int, clients: int) -> list[int]:
    """How many classes that it trains on each client has no test sample of, where there are any."""
    if not len(labels.get("test", ())):
        return []
    there = {}
    for pool in ("train", "test"):
        dealt = owners[pool] >= 0
        there[pool] = torch.zeros(clients, classes, dtype=torch.bool)
        there[pool][owners[pool][dealt], labels[pool][dealt].to(torch.int64)] = True
    counts = (there["train"] & ~there["test"]).sum(1)
    return [int(count) for count in counts[counts > 0]]


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
