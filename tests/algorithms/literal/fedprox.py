"""FedProx, written out.

Source: T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith, "Federated Optimization in Heterogeneous
Networks", MLSys 2020 (arXiv 1812.06127), section 3.2 with the local objective h_k (equation 2) and Algorithm 2, and
"Implementation" in section 5. The released code (github.com/litian96/FedProx, flearn/optimizer/pgd.py and
flearn/trainers/fedbase.py, commits 6be8d40 and 3eed82e) agrees with the choices below.

The paper's symbols are w^t for the global model, w_k^{t+1} for what device k makes of it.

Where the source is silent or contradicts itself:

* Selection and averaging: Algorithm 2 selects device k with probability p_k = n_k / n and takes the plain mean over the
  K selected. Section 5 does something else in all experiments: devices are selected uniformly and the updates weighted
  by the number of local samples. The cohorts are the caller's here, and the weights those of section 5 (n_k over the
  sum of the cohort), as in the released code.
* The local solver: Algorithm 2 asks for some gamma-inexact minimiser of h_k. Section 5 employs stochastic gradient
  descent for some epochs, so that the number of steps stands for gamma. Done so; stragglers, who do fewer epochs, are
  those to whom the caller gives fewer batches.
* A step is one on h_k: the gradient of the mean loss of the batch, plus mu * (w - w^t). Momentum, weight decay and
  clipping, which the paper does not have, act on the sum of both (in the released optimiser there are none of these).
* w^t is the global model as it was sent, fixed throughout the round.
* mu = 0 is FedAvg (section 3.2).
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
    """The square of the Euclidean norm of the difference, over all tensors."""
    total = torch.zeros((), dtype=torch.float64)
    for name in w:
        total = total + ((w[name] - other[name]) ** 2).sum()
    return total


def fedprox(
    clients: list[LiteralClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    initial: Params,
    mu: float,
) -> tuple[Params, list[Params]]:
    """Algorithm 2, with the local solver and the weights of section 5.

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
    w = copied(initial)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        n: dict[int, int] = {}
        for k in selected(cohort):
            client = clients[k]
            w_k = trainable(w)
            v = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                F_k = cross_entropy(client.forward(w_k, x), y)
                h_k = F_k + mu / 2 * squared_distance(w_k, w)  # (2)
                w_k, v = descend(rule, w_k, gradient(h_k, w_k), v)
            client.params = copied(w_k)
            uploads[k] = copied(w_k)
            n[k] = len(client.y)
        if uploads:
            w = aggregate(uploads, n)
    return w, [client.params for client in clients]
