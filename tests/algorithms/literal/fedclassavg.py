"""FedClassAvg written out equation by equation, to lay beside the paper.

"Equation" means one of the paper of FedClassAvg, "L_out" the loss of that name in Khosla et al., "Supervised
contrastive learning", NeurIPS 2020, which it cites for its contrastive loss. The symbols are the paper's: F_k is the
extractor (here the body), C_k the classifier (here the head), x' and x'' are two views of the samples x.

* The paper gives no temperature. L_out there is a sum over the anchors; here it is their mean, as is the cross-entropy.
* Equation 5 is a norm and not its square. It has no derivative where it is 0, at the first batch of every round; of the
  subgradients there, 0 is taken.
* The paper prints no optimiser; here it is that of the other transcriptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

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


@dataclass
class TwoViewClient(PartedClient):
    """Client k whose ``x`` is x', the first view of its samples."""

    x2: Tensor  # x'', the second view of the same samples in the same order


def normalised(z: Tensor) -> Tensor:
    """z / max(||z||, 1e-12) for one representation z."""
    norm = (z**2).sum() ** 0.5
    return z / norm if norm.item() > 1e-12 else z / 1e-12


def contrastive(z: Tensor, labels: list[int], tau: float) -> Tensor:
    """L_out of the representations z, one row each, the mean over the anchors."""
    anchors = []
    for i in range(len(labels)):
        others = [a for a in range(len(labels)) if a != i]  # A(i)
        positives = [p for p in others if labels[p] == labels[i]]  # P(i)
        # the logarithm of the sum over a in A(i) of exp(z_i . z_a / tau)
        log_sum = torch.logsumexp(torch.stack([(z[i] * z[a]).sum() / tau for a in others]), dim=0)
        terms = [-((z[i] * z[p]).sum() / tau - log_sum) for p in positives]
        anchors.append(torch.stack(terms).sum() / len(positives))
    return torch.stack(anchors).sum() / len(anchors)


def contrastive_loss(
    z1: Tensor, z2: Tensor, y: Tensor, tau: float, scaling: Literal["paper", "release"] = "paper"
) -> Tensor:
    """L^CL of equation 4: of the representations of both views, all of which are anchors.

    With "release" they are not normalised, the temperature is 100, and the loss is multiplied by 100 / 0.07.
    """
    labels = [*y.tolist(), *y.tolist()]
    if scaling == "release":
        return 100 / 0.07 * contrastive(torch.cat([z1, z2]), labels, 100)
    return contrastive(torch.stack([normalised(z) for z in torch.cat([z1, z2])]), labels, tau)


def distance(w: Params, other: Params) -> Tensor:
    """Equation 5: ||w - other||_2 over all numbers of all tensors, with the derivative 0 where it is 0."""
    squares = torch.zeros((), dtype=torch.float64)
    for name in w:
        squares = squares + ((w[name] - other[name]) ** 2).sum()
    return squares**0.5 if squares.item() > 0 else torch.zeros((), dtype=torch.float64)


def fedclassavg(
    clients: list[TwoViewClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    initial: Params,
    rho: float,
    tau: float,
    scaling: Literal["paper", "release"] = "paper",
    with_contrastive: bool = True,
    averaging: bool = True,
    share: Literal["classifier", "all"] = "classifier",
) -> tuple[Params, list[Params]]:
    """FedClassAvg: Algorithm 1, equations 3 to 5.

    Args:
        clients: All N clients, whose heads are alike.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of the local model; body and head are one group.
        initial: What the server has before round 1: a head, and a body as well if all is shared.
        rho: The weight of equation 5; 0 is without it.
        tau: The temperature of the contrastive loss; "release" has its own.
        scaling: See :func:`contrastive_loss`.
        with_contrastive: Whether L^CL is part of the loss.
        averaging: Whether anything travels. Without it models stay at home and there is no proximal term.
        share: What travels. "all" is "+weight" in Table 3, for models of one architecture.

    Returns:
        What the server has after the last round, and what every client holds: its body and head as it trained them.
    """
    n = {k: len(client.y) for k, client in enumerate(clients)}
    shared = ["head"] if share == "classifier" else ["body", "head"]
    server = copied(initial)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]
            # "the clients replace the local classifier with the received C"
            received = part(server, *shared) if averaging else {}
            w_k = trainable({**part(client.params, "body", "head"), **received})
            v: Params | None = None
            for batch in batches(t, k, 0):
                x1, y = samples(client, batch)
                x2 = client.x2[torch.tensor(batch)]
                z1 = client.body(part(w_k, "body"), x1)
                z2 = client.body(part(w_k, "body"), x2)
                # (4): L^CE is of the first view alone
                loss = cross_entropy(client.head(part(w_k, "head"), z1), y)
                if with_contrastive:
                    loss = loss + contrastive_loss(z1, z2, y, tau, scaling)
                if averaging:
                    # (5), of the classifier alone whatever is shared
                    loss = loss + rho * distance(part(w_k, "head"), part(received, "head"))
                w_k, v = descend(rule, w_k, gradient(loss, w_k), v)
            client.params = copied(w_k)
            uploads[k] = copied(part(w_k, *shared))
        if uploads and averaging:
            # (3)
            server = aggregate(uploads, n)
    return server, [copied(client.params) for client in clients]
