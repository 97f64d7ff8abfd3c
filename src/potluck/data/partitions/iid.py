"""The same for everyone."""

from __future__ import annotations

from torch import Tensor

from potluck.data.partitions.labels import Labels
from potluck.draws import fold, permutation
from potluck.errors import ConfigError


def iid(argument: str, labels: Labels, classes: int, clients: int, key: int) -> dict[str, Tensor]:  # noqa: ARG001
    """Every client gets a random sample of each pool, their sizes differing by at most one."""
    if argument:
        raise ConfigError(f"partition 'iid' takes no argument, but {argument!r} was given: write 'iid'.")
    # The rank of a sample in a random order is as good a shuffle as the order itself.
    return {pool: permutation(fold(key, pool), len(y)) % clients for pool, y in labels.items()}
