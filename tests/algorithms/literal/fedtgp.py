"""FedTGP, written out.

* A client trains as in FedProto, towards what the server last broadcast: TGP of every class, also of those nobody has.
  Until the server has trained TGP once, there is nothing to broadcast and no such term.
* The margin is computed once a round. With fewer than two classes there is no distance between any: it is tau.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .common import Batches, Params, PartedClient, Rule, copied, cross_entropy, descend, gradient, selected, trainable
from .fedproto import Prototypes, train_with_prototypes
from .parted import Order, average, class_means


def tgp(params: Params) -> Tensor:
    """TGP(c) = W_2 relu(W_1 e_c + b_1) + b_2, one row for each class c."""
    rows = []
    for e_c in params["prototypes.embedding.weight"]:
        hidden = torch.relu(params["prototypes.0.weight"] @ e_c + params["prototypes.0.bias"])
        rows.append(params["prototypes.2.weight"] @ hidden + params["prototypes.2.bias"])
    return torch.stack(rows)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """||a - b||_2; its derivative where both are the same is taken as 0."""
    norm: Tensor = torch.linalg.vector_norm(a - b)
    return norm


def margin(uploads: list[tuple[Tensor, int]], tau: float) -> float:
    """delta = min(max over classes s of (min over classes s' other than s of ||m_s - m_s'||), tau).

    m_s is the mean of the uploaded means of class s, everyone's alike; s and s' are classes that were uploaded.
    """
    present = sorted({s for _, s in uploads})
    if len(present) < 2:
        return tau
    m = {s: average([p for p, label in uploads if label == s]) for s in present}
    gaps = [min(distance(m[s], m[other]).item() for other in present if other != s) for s in present]
    return min(max(gaps), tau)


def contrast(params: Params, uploads: list[tuple[Tensor, int]], delta: float) -> Tensor:
    """The cross-entropy of the logits -(||p - TGP_c|| + delta * [c = y]), mean over the uploaded means (p, y)."""
    prototypes = tgp(params)
    logits = []
    for p, y in uploads:
        row = [-(distance(p, tgp_c) + (delta if c == y else 0.0)) for c, tgp_c in enumerate(prototypes)]
        logits.append(torch.stack(row))
    return cross_entropy(torch.stack(logits), torch.tensor([y for _, y in uploads]))


def fedtgp(
    clients: list[PartedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    initial: Params,
    server_learning_rate: float,
    server_epochs: int,
    order: Order,
    lam: float = 10.0,
    tau: float = 100.0,
    server_batch: int = 10,
) -> tuple[Params, list[Params]]:
    """FedTGP: FedProto with prototypes that the server trains to lie apart.

    Args:
        clients: All N clients, with representations of one size.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of the clients.
        initial: TGP before round 1: "prototypes.embedding.weight", "prototypes.0.weight", and so on.
        server_learning_rate: The learning rate of TGP, which is trained by plain gradient descent.
        server_epochs: S.
        order: The order of the uploaded means in each epoch; before it they are in order of client, then of label.
        lam: The weight of the distance to the prototypes.
        tau: The largest margin.
        server_batch: How many uploaded means make a batch; the last of an epoch may have fewer.

    Returns:
        TGP after the last round, and what every client holds.
    """
    params = copied(initial)
    prototypes: Prototypes = {}
    for t, cohort in enumerate(cohorts, start=1):
        uploads: list[tuple[Tensor, int]] = []
        for k in sorted(selected(cohort)):
            client = clients[k]
            omega_k = train_with_prototypes(client, batches(t, k, 0), rule, prototypes, lam)
            client.params = {**client.params, **omega_k}
            means = class_means(client.body(omega_k, client.x), client.y)
            uploads += [(means[s], s) for s in sorted(means)]
        if uploads:
            delta = margin(uploads, tau)
            params = trainable(params)
            for epoch in range(server_epochs):
                positions = order(t, epoch, len(uploads))
                for first in range(0, len(positions), server_batch):
                    batch = [uploads[position] for position in positions[first : first + server_batch]]
                    loss = contrast(params, batch, delta)
                    params, _ = descend(Rule(server_learning_rate), params, gradient(loss, params), None)
            params = copied(params)
            prototypes = dict(enumerate(tgp(params)))
    return params, [copied(client.params) for client in clients]
