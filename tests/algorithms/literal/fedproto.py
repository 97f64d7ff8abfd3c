"""FedProto, written out.

* Prototypes are taken of the trained model, over all training samples of the client.
* A class that nobody selected holds keeps its prototype. A sample whose class has none adds nothing to the term.
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
from .parted import class_counts, class_means, drawn

Prototypes = dict[int, Tensor]


def distance_to_prototypes(rep: Tensor, y: Tensor, prototypes: Prototypes) -> Tensor:
    """1/B times the sum over the batch of 1/d * ||rep - prototype_y||^2, without samples whose class has none."""
    total = torch.zeros((), dtype=torch.float64)
    for rep_i, label in zip(rep, y.tolist(), strict=True):
        if label in prototypes:
            total = total + ((rep_i - prototypes[label]) ** 2).sum() / len(rep_i)
    return total / len(y)


def train_with_prototypes(
    client: PartedClient, batches: list[list[int]], rule: Rule, prototypes: Prototypes, lam: float
) -> Params:
    """The body and the head after CE + lambda * distance, from where the client stands."""
    omega_k = trainable(part(client.params, "body", "head"))
    v: Params | None = None
    for batch in batches:
        x, y = drawn(client.x, client.y, batch)
        rep = client.body(omega_k, x)
        loss = cross_entropy(client.head(omega_k, rep), y) + lam * distance_to_prototypes(rep, y, prototypes)
        omega_k, v = descend(rule, omega_k, gradient(loss, omega_k), v)
    return copied(omega_k)


def fedproto(
    clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule, lam: float
) -> tuple[Prototypes, list[Params]]:
    """FedProto: representations are drawn to the mean representation of their class.

    Args:
        clients: All N clients, with representations of one size.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser.
        lam: The weight of the distance to the prototypes.

    Returns:
        The prototypes by class after the last round, and what every client holds.
    """
    prototypes: Prototypes = {}
    for t, cohort in enumerate(cohorts, start=1):
        means: dict[int, Prototypes] = {}
        counts: dict[int, dict[int, int]] = {}
        for k in sorted(selected(cohort)):
            client = clients[k]
            omega_k = train_with_prototypes(client, batches(t, k, 0), rule, prototypes, lam)
            client.params = {**client.params, **omega_k}
            means[k] = class_means(client.body(omega_k, client.x), client.y)
            counts[k] = class_counts(client.y)
        for s in sorted({s for k in means for s in means[k]}):
            # sum over the k in S that hold s of n_ks * mean_ks, divided by the sum of n_ks
            owners = [k for k in means if s in means[k]]
            weighted = torch.stack([counts[k][s] * means[k][s] for k in owners]).sum(dim=0)
            prototypes = {**prototypes, s: weighted / sum(counts[k][s] for k in owners)}
    return prototypes, [copied(client.params) for client in clients]
