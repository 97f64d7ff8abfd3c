"""The same clients under two methods."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from potluck.results import Group, RunResult

_SHARES = ("data", "split", "partition")
"""Settings that, with the seed, decide which samples a client holds."""


def differences(group: Group, baseline: Group, protocol: str) -> tuple[NDArray[np.float64] | None, list[str]]:
    """For each client the difference in accuracy, averaged over the seeds that both have.

    With the same seed a client holds the same samples under both methods. One without test samples has no accuracy,
    and does not count where it has none.

    Returns:
        The differences by client, NaN for a client that never had test samples, or None where nothing can be paired;
        and what is to be said about it.
    """
    ours, theirs = ({run.seed: run for run in each.runs} for each in (group, baseline))
    seeds = sorted(ours.keys() & theirs.keys())
    remarks = []
    if ours.keys() != theirs.keys():
        remarks.append(
            f"{group.name} has seeds {_list(ours)} and {baseline.name} {_list(theirs)}: "
            + (f"their clients are paired over {_list(seeds)}." if seeds else "none to pair their clients over.")
        )
    if not seeds:
        return None, remarks
    apart = [key for key in _SHARES if group.runs[0].config.get(key) != baseline.runs[0].config.get(key)]
    if apart:
        remarks.append(
            f"{group.name} and {baseline.name} differ in {', '.join(apart)}, so that a client holds other samples: "
            "nothing to pair, and no test."
        )
        return None, remarks
    found = [_of_seed(ours[seed], theirs[seed], protocol) for seed in seeds]
    rows = [row for row in found if row is not None]
    if len(rows) < len(found) or len({len(row) for row in rows}) > 1:
        remarks.append(
            "Under the papers' protocol not every client has an accuracy: there is nothing to pair, and no test."
            if protocol == "participants_best"
            else f"{group.name} and {baseline.name} have different clients: nothing to pair, and no test."
        )
        return None, remarks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a client without test samples under every seed
        return np.nanmean(np.stack(rows), axis=0), remarks


def _of_seed(run: RunResult, other: RunResult, protocol: str) -> NDArray[np.float64] | None:
    """Differences by client; None if the two runs do not have the accuracies of the same clients."""
    mine, theirs = run.client_accuracies(protocol), other.client_accuracies(protocol)
    if mine.keys() != theirs.keys() or len(mine) != run.config["clients"]:
        return None
    return np.array([mine[client] - theirs[client] for client in sorted(mine)])


def _list(seeds: Iterable[int]) -> str:
    return ", ".join(str(seed) for seed in sorted(seeds))
