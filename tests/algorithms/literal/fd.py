"""FD (federated distillation), written out.

* What goes up are outputs of the softmax, not logits, and the distance to them is a cross-entropy.
* A client's own contribution is not in its targets. A sample of a class to which nobody else has contributed has none.
* A class to which nobody contributes in a round keeps the contributions it had; otherwise the round's replace them all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .common import (
    Batches,
    Params,
    PartedClient,
    Rule,
    copied,
    cross_entropy,
    descend,
    gradient,
    part,
    selected,
    trainable,
)
from .parted import average, class_means, drawn, log_softmax, softmax

Contributions = dict[int, dict[int, Tensor]]
"""class -> client -> the mean of its softmax outputs over its samples of that class."""


def targets_for(k: int, contributions: Contributions) -> dict[int, Tensor]:
    """For each class the mean of what the clients other than k contributed, where there are any."""
    targets = {}
    for s, given in contributions.items():
        others = [given[j] for j in given if j != k]
        if others:
            targets[s] = average(others)
    return targets


def distillation(z: Tensor, y: Tensor, targets: dict[int, Tensor]) -> Tensor:
    """1/B times the sum over the batch of -sum_c target_c * log softmax(z)_c, without samples that have no target."""
    total = torch.zeros((), dtype=torch.float64)
    for log_p, label in zip(log_softmax(z), y.tolist(), strict=True):
        if label in targets:
            total = total - (targets[label] * log_p).sum()
    return total / len(y)


def fd(
    clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule, lam: float
) -> tuple[Contributions, list[Params]]:
    """FD: clients learn from the mean outputs of each other, class by class.

    Args:
        clients: All N clients.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser.
        lam: The weight of distillation.

    Returns:
        The contributions that the server keeps, by class and client, and what every client holds.
    """
    contributions: Contributions = {}
    for t, cohort in enumerate(cohorts, start=1):
        uploads: Contributions = {}
        for k in sorted(selected(cohort)):
            client = clients[k]
            targets = targets_for(k, contributions)
            omega_k = trainable(part(client.params, "body", "head"))
            v: Params | None = None
            for batch in batches(t, k, 0):
                x, y = drawn(client.x, client.y, batch)
                z = client.head(omega_k, client.body(omega_k, x))
                loss = cross_entropy(z, y) + lam * distillation(z, y, targets)
                omega_k, v = descend(rule, omega_k, gradient(loss, omega_k), v)
            client.params = {**client.params, **copied(omega_k)}
            p = softmax(client.head(omega_k, client.body(omega_k, client.x)))
            for s, mean in class_means(p, client.y).items():
                uploads.setdefault(s, {})[k] = mean
        for s, given in uploads.items():
            contributions[s] = given
    return contributions, [copied(client.params) for client in clients]
