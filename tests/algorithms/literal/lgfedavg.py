"""LG-FedAvg, written out: the body of every model stays at its client, the head is that of all and is averaged.

(Liang et al., "Think locally, act globally". The papers of FedGH and pFedAFM compare with it in this form.)
"""

from __future__ import annotations

from .common import (
    Batches,
    Params,
    PartedClient,
    Rule,
    aggregate,
    copied,
    cross_entropy,
    descend,
    gradient,
    part,
    samples,
    selected,
    trainable,
)


def lgfedavg(
    clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule, head: Params
) -> tuple[Params, list[Params]]:
    """LG-FedAvg.

    Args:
        clients: All N clients, whose heads are alike.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of body and head, which are one group.
        head: The head the server has before round 1.

    Returns:
        The server's head after the last round, and what every client holds: its body and the head as it trained it.
    """
    n = {k: len(client.y) for k, client in enumerate(clients)}
    head = copied(head)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]
            # the received head replaces the own one, the body continues from where it was
            omega_k = trainable({**part(client.params, "body"), **head})
            v: Params | None = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                loss = cross_entropy(client.forward(omega_k, x), y)
                omega_k, v = descend(rule, omega_k, gradient(loss, omega_k), v)
            client.params = copied(omega_k)
            uploads[k] = copied(part(omega_k, "head"))
        if uploads:
            head = aggregate(uploads, n)
    return head, [copied(client.params) for client in clients]
