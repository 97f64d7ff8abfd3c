"""The same clients under two methods."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from potluck.results import Group, RunResult

_SHARES = ("data", "split", "partition")
"""Settings that, with the seed, decide which samples a client holds."""

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Accuracies of the same clients under two methods, in the order of their ids."""


def by_seed(group: Group, baseline: Group, protocol: str) -> tuple[dict[int, Pair], list[str]]:
    """For each seed that both have, the accuracies of the same clients under both.

    With the same seed a client holds the same samples under both methods. One without test samples has no accuracy.

    Returns:
        The accuracies by seed, empty where nothing can be paired; and what is to be said about it.
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
        return {}, remarks
    apart = [key for key in _SHARES if group.runs[0].config.get(key) != baseline.runs[0].config.get(key)]
    if apart:
        remarks.append(
            f"{group.name} and {baseline.name} differ in {', '.join(apart)}, so that a client holds other samples: "
            "nothing to pair, and no test."
        )
        return {}, remarks
    pairs = {seed: pair for seed in seeds if (pair := _of_seed(ours[seed], theirs[seed], protocol)) is not None}
    if len(pairs) < len(seeds) or len({len(mine) for mine, _ in pairs.values()}) > 1:
        remarks.append(
            "Under the papers' protocol not every client has an accuracy: there is nothing to pair, and no test."
            if protocol == "participants_best"
            else f"{group.name} and {baseline.name} have different clients: nothing to pair, and no test."
        )
        return {}, remarks
    return pairs, remarks


def differences(group: Group, baseline: Group, protocol: str) -> tuple[NDArray[np.float64] | None, list[str]]:
    """For each client the difference in accuracy, averaged over the seeds that both have.

    Returns:
        The differences by client, NaN for a client that never had test samples, or None where nothing can be paired;
        and what is to be said about it.
    """
    pairs, remarks = by_seed(group, baseline, protocol)
    if not pairs:
        return None, remarks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a client without test samples under every seed
        return np.nanmean(np.stack([mine - theirs for mine, theirs in pairs.values()]), axis=0), remarks


def _of_seed(run: RunResult, other: RunResult, protocol: str) -> Pair | None:
    """Accuracies by client; None if the two runs do not have those of the same clients."""
    mine, theirs = run.client_accuracies(protocol), other.client_accuracies(protocol)
    if mine.keys() != theirs.keys() or len(mine) != run.config["clients"]:
        return None
    clients = sorted(mine)
    return np.array([mine[client] for client in clients]), np.array([theirs[client] for client in clients])


def _list(seeds: Iterable[int]) -> str:
    return ", ".join(str(seed) for seed in sorted(seeds))
