"""The same clients under two methods."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from potluck.results import Group, RunResult

_SHARES = ("data", "split", "partition", "set_aside")
"""Settings that, with the seed, decide which samples a client of a data set holds."""

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Accuracies of the same clients under two methods, in the order of their ids."""


def by_seed(group: Group, baseline: Group, protocol: str) -> tuple[dict[int, Pair], list[str]]:
    """For each seed that both have, the accuracies of the same clients under both.

    Clients are the same if they hold the same samples, by the digests in the runs' folders. One that is not the same,
    or has no test samples, is not a number in both.

    Returns:
        The accuracies by seed, empty where nothing can be paired; and what is to be said about it.
    """
    ours, theirs = ({run.seed: run for run in each.runs} for each in (group, baseline))
    seeds = sorted(ours.keys() & theirs.keys())
    remarks = []
    if ours.keys() != theirs.keys():
        remarks.append(
            f"{group.title} has seeds {_list(ours)} and {baseline.title} {_list(theirs)}: "
            + (f"their clients are paired over {_list(seeds)}." if seeds else "none to pair their clients over.")
        )
    if not seeds:
        return {}, remarks
    pairs = {seed: pair for seed in seeds if (pair := _of_seed(ours[seed], theirs[seed], protocol)) is not None}
    if len(pairs) < len(seeds) or len({len(mine) for mine, _ in pairs.values()}) > 1:
        remarks.append(
            "Under the papers' protocol not every client has an accuracy: there is nothing to pair, and no test."
            if protocol == "participants_best"
            else f"{group.title} and {baseline.title} have different clients: nothing to pair, and no test."
        )
        return {}, remarks
    same = {seed: _same_samples(ours[seed], theirs[seed]) for seed in seeds}
    if not any(each.any() for each in same.values()):
        apart = [key for key in _SHARES if group.runs[0].config.get(key) != baseline.runs[0].config.get(key)]
        differing = f"differ in {', '.join(apart)}, so that" if apart else "were run on different data:"
        remarks.append(
            f"{group.title} and {baseline.title} {differing} a client holds other samples: "
            "nothing to pair, and no test."
        )
        return {}, remarks
    if others := sum(int((~each).sum()) for each in same.values()):
        count = sum(len(each) for each in same.values())
        remarks.append(
            f"{others} of {count} clients hold other samples under {group.title} than under {baseline.title}, "
            "and are not paired."
        )
    if any(run.inputs is None for seed in seeds for run in (ours[seed], theirs[seed])):
        remarks.append(
            f"Not every run of {group.title} and {baseline.title} records which samples its clients hold: they are "
            "paired by seed and settings."
        )
    return {
        seed: (np.where(same[seed], mine, np.nan), np.where(same[seed], other, np.nan))
        for seed, (mine, other) in pairs.items()
    }, remarks


def _same_samples(run: RunResult, other: RunResult) -> NDArray[np.bool_]:
    """For each client whether it holds the same samples in both runs."""
    clients = run.config["clients"]
    if run.inputs is None or other.inputs is None:
        return np.full(clients, all(run.config.get(key) == other.config.get(key) for key in _SHARES))
    pairs = zip(run.inputs.samples(), other.inputs.samples(), strict=True)
    return np.array([mine == theirs for mine, theirs in pairs], dtype=np.bool_)


def differences(group: Group, baseline: Group, protocol: str) -> tuple[NDArray[np.float64] | None, list[str]]:
    """For each client the difference in accuracy, averaged over the seeds that both have.

    Returns:
        The differences by client, NaN for a client that never had test samples, or None where nothing can be paired;
        and what is to be said about it.
    """
    pairs, remarks = by_seed(group, baseline, protocol)
    return (over_seeds([mine - theirs for mine, theirs in pairs.values()]) if pairs else None), remarks


def over_seeds(apart: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """For each client the mean over seeds of its numbers; NaN where it has none under any of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a client without test samples under every seed
        return np.asarray(np.nanmean(np.stack(apart), axis=0))


def _of_seed(run: RunResult, other: RunResult, protocol: str) -> Pair | None:
    """Accuracies by client; None if the two runs do not have those of the same clients."""
    mine, theirs = run.client_accuracies(protocol), other.client_accuracies(protocol)
    if mine.keys() != theirs.keys() or len(mine) != run.config["clients"]:
        return None
    clients = sorted(mine)
    return np.array([mine[client] for client in clients]), np.array([theirs[client] for client in clients])


def _list(seeds: Iterable[int]) -> str:
    return ", ".join(str(seed) for seed in sorted(seeds))
