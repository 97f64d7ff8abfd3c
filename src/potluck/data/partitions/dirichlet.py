"""Shares of every class from a Dirichlet distribution (pFedAFM's "practical" setting)."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from potluck.data.cutting import cut, deal
from potluck.data.partitions.labels import Labels, class_counts
from potluck.draws import fold, shares
from potluck.errors import ConfigError, DataError

_USUAL_LEAST = 10
_MOST_TRIES, _MOST_DRAWS = 1000, 20_000_000
_WHOLE = 1 << 30
"""Shares are rounded to such parts, so that the rest is done in whole numbers."""


def dirichlet(argument: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, Tensor]:
    """Every class is cut among all clients by shares drawn from Dirichlet(gamma), the same for all pools.

    ``argument`` is gamma, or gamma and the fewest training samples that a client may have, as in ``0.1:20``; without
    it that is 10, or half the mean where clients are many. The smaller gamma is, the more unlike the clients are. A
    draw that leaves somebody with less is drawn again; after a bounded number of tries that is an error.
    """
    gamma, least = _parse(argument)
    train = labels["train"]
    if least is None:
        least = max(1, min(_USUAL_LEAST, len(train) // clients // 2))
    counts = class_counts(train, classes)
    tries = max(10, min(_MOST_TRIES, _MOST_DRAWS // (classes * clients))) if least * clients <= len(train) else 0
    for attempt in range(tries):
        weights = whole(shares(fold(key, "shares", attempt), gamma, classes, clients)).T
        if int(cut(counts, weights).sum(1).min()) >= least:
            return {pool: deal(y, weights, fold(key, "deal", pool)) for pool, y in labels.items()}
    also = f", a larger gamma or a smaller minimum, as 'dirichlet:{gamma:g}:1'" if least > 1 else " or a larger gamma"
    raise DataError(
        f"partition 'dirichlet:{argument}' could not give each of {clients} clients {least} of {len(train):,} training "
        f"samples or more{f' in {tries} tries' if tries else ''}: use fewer clients{also}."
    )


def whole(parts: Tensor) -> Tensor:
    """Shares as whole numbers; in each row at least one is above zero."""
    return (parts * _WHOLE).round().to(torch.int64)


def concentration(text: str, spec: str) -> float:
    """The parameter of a Dirichlet distribution, as a user writes it."""
    number = float(text) if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,9})?|\.[0-9]{1,9}", text) else 0.0
    if not 1e-3 <= number <= 1e6:
        raise ConfigError(
            f"partition {spec!r} needs a number from 0.001 to 1,000,000 after a colon, as in "
            f"'{spec.partition(':')[0]}:0.5'."
        )
    return number


def _parse(argument: str) -> tuple[float, int | None]:
    text, colon, least = argument.partition(":")
    spec = f"dirichlet:{argument}" if argument else "dirichlet"
    gamma = concentration(text, spec)
    if colon and (not re.fullmatch("[0-9]{1,9}", least) or int(least) < 1):
        raise ConfigError(
            f"partition {spec!r} has {least!r} where the fewest training samples of a client should be: write a whole "
            f"number from 1, as in 'dirichlet:{text}:10'."
        )
    return gamma, int(least) if colon else None
