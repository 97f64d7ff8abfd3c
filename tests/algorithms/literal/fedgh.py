"""FedGH written out equation by equation, to lay beside the paper.

The symbols are the paper's: phi_k are the parameters of client k's extractor F_k (here its body), theta those of the
header H (here "head"), omega_k both together, LAR the local averaged representation of a class.

Equation 4 has theta^{t-1} on its right for every LAR. It is read as the loop that "Training process of FedGH"
describes: each step starts from what the step before it left, and theta^t is the last result. Algorithm 1 starts at
t = 0 with theta^{-1}; here the first round is t = 1, and theta^0, the server's own first header, is received in it.
"""

from __future__ import annotations

from typing import Literal

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
    samples,
    selected,
    trainable,
)


def averaged_representations(client: PartedClient, params: Params) -> dict[int, Tensor]:
    """Equation 3: label s -> the mean of F_k(phi_k; x_i) over all own samples of class s, in ascending order of s."""
    labels = client.y.tolist()
    means = {}
    for s in sorted(set(labels)):
        own = [client.body(part(params, "body"), client.x[i : i + 1])[0] for i in range(len(labels)) if labels[i] == s]
        means[s] = torch.stack(own).sum(dim=0) / len(own)
    return means


def fedgh(
    clients: list[PartedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    theta: Params,
    server_learning_rate: float,
    mode: Literal["representation", "client"] = "representation",
    passes: int = 1,
) -> tuple[Params, list[Params]]:
    """FedGH: Algorithm 1, equations 3 to 6.

    Args:
        clients: All N clients, whose heads are alike.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of the local models, with eta_omega; body and head are one group.
        theta: theta^0.
        server_learning_rate: eta_theta. The server has neither momentum nor weight decay nor clipping.
        mode: Whether the server takes a step for every representation, or one for all of a client, by their mean loss.
        passes: How often the server goes through all representations of a round.

    Returns:
        theta after the last round, and omega_k of every client, with the header as the client trained it.
    """
    theta = copied(theta)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, dict[int, Tensor]] = {}
        for k in selected(cohort):
            client = clients[k]
            # (5)
            omega_k = trainable({**part(client.params, "body"), **theta})
            # (6)
            v: Params | None = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                loss = cross_entropy(client.forward(omega_k, x), y)
                omega_k, v = descend(rule, omega_k, gradient(loss, omega_k), v)
            client.params = copied(omega_k)
            # (3)
            uploads[k] = averaged_representations(client, client.params)

        theta = trainable(theta)
        for _ in range(passes):
            for k, means in uploads.items():
                steps = [[s] for s in means] if mode == "representation" else [list(means)]
                for labels in steps:
                    representations = torch.stack([means[s] for s in labels])
                    loss = cross_entropy(clients[k].head(theta, representations), torch.tensor(labels))
                    # (4)
                    theta, _ = descend(Rule(server_learning_rate), theta, gradient(loss, theta), None)
        theta = copied(theta)
    return theta, [copied(client.params) for client in clients]
