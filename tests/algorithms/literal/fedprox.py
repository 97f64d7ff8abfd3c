"""FedProx, written out: FedAvg with the proximal term of Li et al., "Federated optimization in heterogeneous networks".

Client k minimises h_k(w; w^t) = F_k(w) + mu/2 ||w - w^t||^2, where w^t is the model it received this round and w are
all parameters of the model. n_k weighs the average as in FedAvg.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .common import (
    Batches,
    LiteralClient,
    Params,
    Rule,
    aggregate,
    copied,
    cross_entropy,
    descend,
    gradient,
    samples,
    selected,
    trainable,
)


def squared_distance(w: Params, other: Params) -> Tensor:
    """||w - other||^2: the sum of the squared differences of all numbers of all tensors."""
    total = torch.zeros((), dtype=torch.float64)
    for name in w:
        total = total + ((w[name] - other[name]) ** 2).sum()
    return total


def fedprox(
    clients: list[LiteralClient], cohorts: list[list[int]], batches: Batches, rule: Rule, initial: Params, mu: float
) -> tuple[Params, list[Params]]:
    """FedProx.

    Args:
        clients: All N clients, of one architecture.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser.
        initial: The global model before round 1.
        mu: The weight of the proximal term, which is halved besides.

    Returns:
        The global model after the last round, and what every client holds: the model it trained when it was last
        selected, or the parameters it was given if it never was.
    """
    n = {k: len(client.y) for k, client in enumerate(clients)}
    w = copied(initial)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]
            received = copied(w)  # w^t, which stays the same for all batches of the round
            w_k = trainable(received)
            v: Params | None = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                loss = cross_entropy(client.forward(w_k, x), y) + mu / 2 * squared_distance(w_k, received)
                w_k, v = descend(rule, w_k, gradient(loss, w_k), v)
            client.params = copied(w_k)
            uploads[k] = copied(w_k)
        if uploads:
            w = aggregate(uploads, n)
    return w, [copied(client.params) for client in clients]
