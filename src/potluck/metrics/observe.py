"""What is recorded of a client beside its scores: what its algorithm shows, and what a run was asked to measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from potluck.algorithms.hooks import calling, given
from potluck.contract import Round
from potluck.engines.base import Engine, Job, Outcome, Setting
from potluck.engines.memory import receive, weights_in
from potluck.metrics.gradient import squared_gradient_norm

GRADIENT = "squared_gradient_norm"
"""Under which name ``measure = "gradient-norm"`` is recorded."""


def observe(
    setting: Setting, engine: Engine, measure: str | None, round: Round, job: Job, outcome: Outcome
) -> dict[str, float]:
    """Look at the networks that a client holds after its training, on copies: nothing changes."""
    with calling(setting.algorithm, "observe", client=job.client.id, round=round):
        found = dict(setting.algorithm.observe(weights_in(outcome.state))) if outcome.state else {}
        seen = {given(str, name): float(value) for name, value in found.items()}
    if measure == "gradient-norm" and outcome.state:
        modules = engine.networks(Job(job.client, lambda: outcome.state, job.payload))
        received = receive(setting.algorithm, job, setting.task)
        norm = squared_gradient_norm(setting, job.client, modules, received, round)
        if norm is not None:
            seen[GRADIENT] = norm
    return {name: value for name, value in seen.items() if math.isfinite(value)}


def means(seen: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean over clients of each thing that was seen.

    >>> means([{"mixing": 0.5}, {"mixing": 1.0}, {}])
    {'mixing': 0.75}
    """
    values: dict[str, list[float]] = {}
    for own in seen:
        for name, value in own.items():
            values.setdefault(name, []).append(value)
    return {name: sum(each) / len(each) for name, each in values.items()}
