"""FedAvg, written out."""

from __future__ import annotations

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


def fedavg(
    clients: list[LiteralClient], cohorts: list[list[int]], batches: Batches, rule: Rule, initial: Params
) -> tuple[Params, list[Params]]:
    """FedAvg, as the Preliminaries of the AAAI paper describe it.

    Args:
        clients: All N clients, of one architecture.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser.
        initial: The global model before round 1.

    Returns:
        The global model after the last round, and what every client holds: the model it trained when it was last
        selected, before the server averaged it, or the parameters it was given if it never was.
    """
    n = {k: len(client.y) for k, client in enumerate(clients)}
    omega = copied(initial)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]
            # "broadcasts the global model F(omega)": every selected client starts from the same one
            omega_k = trainable(omega)
            v: Params | None = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                # omega_k <- omega - eta * gradient of l(F(x_i; omega), y_i)
                loss = cross_entropy(client.forward(omega_k, x), y)
                omega_k, v = descend(rule, omega_k, gradient(loss, omega_k), v)
            client.params = copied(omega_k)
            uploads[k] = copied(omega_k)
        if uploads:
            # omega = sum over k in S of n_k / n times omega_k
            omega = aggregate(uploads, n)
    return omega, [copied(client.params) for client in clients]
