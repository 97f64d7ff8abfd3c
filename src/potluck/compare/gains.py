"""How many clients a method helps, and how many it harms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from potluck.compare.pairing import by_seed
from potluck.errors import ConfigError, nearest
from potluck.results import Group, RunResult, groups

BASELINE = "standalone"
"""What every client has without collaboration."""
_DIGITS = 12
"""Decimals that count: 0.4 - 0.3 and 0.6 - 0.5 are the same change, though not to the last bit."""


@dataclass(frozen=True)
class Gains:
    """The change in each client's test accuracy, from a baseline to a method.

    Attributes:
        count: Clients that have an accuracy under both; with several seeds, the clients of each seed.
        gain: How many of them are more accurate under the method.
        lose: How many are less accurate.
        equal: How many are as accurate as before.
        mean: Mean change, as a share: 0.1 is 10 points.
        median: Median change.
        worst: The lowest change, 0 where no client loses.
        best: The highest change, 0 where no client gains.
    """

    count: int
    gain: int
    lose: int
    equal: int
    mean: float
    median: float
    worst: float
    best: float

    @classmethod
    def between(cls, ours: Iterable[float | None], theirs: Iterable[float | None]) -> Gains | None:
        """Compare accuracies, the same client at the same place in both; None where no client has one in both.

        >>> found = Gains.between([0.9, 0.5, 0.7, None], [0.6, 0.6, 0.7, 0.8])
        >>> found.gain, found.lose, found.equal, round(found.worst, 3), round(found.best, 3)
        (1, 1, 1, -0.1, 0.3)
        """
        ours, theirs = (np.array(list(values), dtype=np.float64) for values in (ours, theirs))
        if len(ours) != len(theirs):
            raise ConfigError(f"{len(ours)} clients cannot be paired with {len(theirs)}: give the same clients twice.")
        changes = (ours - theirs).round(_DIGITS)
        changes = changes[np.isfinite(changes)]
        if not len(changes):
            return None
        gain, lose = int((changes > 0).sum()), int((changes < 0).sum())
        return cls(
            count=len(changes),
            gain=gain,
            lose=lose,
            equal=len(changes) - gain - lose,
            mean=float(changes.mean()),
            median=float(np.median(changes)),
            worst=float(min(changes.min(), 0.0)),
            best=float(max(changes.max(), 0.0)),
        )


def gains(group: Group, baseline: Group) -> Gains | None:
    """Each client of a method beside the same client of the baseline, in the last round.

    Clients are the same where seed and samples are. None where no clients can be paired.
    """
    pairs, _ = by_seed(group, baseline, "all_last")
    return Gains.between(
        [value for ours, _ in pairs.values() for value in ours],
        [value for _, theirs in pairs.values() for value in theirs],
    )


def client_gains(results: Sequence[RunResult], baseline: str = BASELINE) -> dict[str, Gains]:
    """Say for each method how many clients gain and how many lose by it.

    Args:
        results: Runs, as :func:`potluck.results.read_runs` gives them; only finished ones count.
        baseline: The method that the others are compared to.

    Returns:
        The gains by the name of the method; methods without a client in common with the baseline are left out.
    """
    found = groups([result for result in results if result.finished])
    base = named(found, baseline)
    pairs = ((group.name, gains(group, base)) for group in found if group is not base)
    return {name: each for name, each in pairs if each is not None}


def named(found: Sequence[Group], name: str) -> Group:
    """The first group of this name, or of this algorithm."""
    for group in found:
        if name.lower() in (group.name.lower(), group.algorithm):
            return group
    raise ConfigError(nearest(name, [group.name for group in found], "baseline"))
