"""FedAPEN, written out.

* The weight w_k of the ensemble is learnt by a client as soon as it has received the small model, from round 2 on: in
  round 1 there has not been any average. That is phase 0 then, and training is phase 1; in round 1 training is phase 0.
* While w_k is learnt both models are constants, and while they are trained w_k is one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .common import (
    Batches,
    Forward,
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
from .parted import drawn, kl_divergence, softmax, unweighted


def ensemble(w: Tensor, z_p: Tensor, z_s: Tensor) -> Tensor:
    """w * z_p + (1 - w) * z_s."""
    return w * z_p + (1 - w) * z_s


def adapted(
    client: PartedClient,
    w: Tensor,
    own: Params,
    small_body: Forward,
    small_head: Forward,
    small: Params,
    batches: list[list[int]],
    learning_rate: float,
) -> Tensor:
    """w after a step for each batch of the held-out data: w <- w - eta * dCE/dw, put back into [0, 1]."""
    w = w.detach().clone()
    for batch in batches:
        assert client.holdout_x is not None
        assert client.holdout_y is not None
        x, y = drawn(client.holdout_x, client.holdout_y, batch)
        z_p = client.head(own, client.body(own, x)).detach()
        z_s = small_head(small, small_body(small, x)).detach()
        variable = trainable({"ensemble.weight": w})
        loss = cross_entropy(ensemble(variable["ensemble.weight"], z_p, z_s), y)
        w = w - learning_rate * gradient(loss, variable)["ensemble.weight"]
        w = torch.tensor(min(1.0, max(0.0, w.item())), dtype=torch.float64)
    return w


def fedapen(
    clients: list[PartedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    small_body: Forward,
    small_head: Forward,
    small: Params,
    adapt_learning_rate: float,
    small_rule: Rule | None = None,
    start: float = 0.5,
) -> tuple[Params, list[Params]]:
    """FedAPEN: mutual learning, and an ensemble of both models with a weight of the client's own.

    Args:
        clients: All N clients, with held-out data.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of training, and those of adapting, which are positions in the held-out data. In round 1
            phase 0 is training; from round 2 on phase 0 is adapting and phase 1 training.
        rule: The optimiser of F_k.
        small_body: The body of the small model.
        small_head: The head of the small model.
        small: The small model before round 1.
        adapt_learning_rate: The learning rate of w_k.
        small_rule: The optimiser of the small model; that of F_k if there is none.
        start: w_k of every client before it first adapts.

    Returns:
        The small model after the last round, and what every client holds: F_k and the small model as it trained them,
        and w_k as "ensemble.weight".
    """
    rule_small = rule if small_rule is None else small_rule
    small = copied(small)
    for client in clients:
        client.params = {**client.params, "ensemble.weight": torch.tensor(start, dtype=torch.float64)}
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in sorted(selected(cohort)):
            client = clients[k]
            own_k = trainable(part(client.params, "body", "head"))
            small_k = trainable(small)

            w = client.params["ensemble.weight"]
            phase = 0
            if t >= 2:
                w = adapted(
                    client, w, own_k, small_body, small_head, small_k, batches(t, k, phase), adapt_learning_rate
                )
                phase = 1

            v_own: Params | None = None
            v_small: Params | None = None
            for batch in batches(t, k, phase):
                x, y = drawn(client.x, client.y, batch)
                z_p = client.head(own_k, client.body(own_k, x))
                z_s = small_head(small_k, small_body(small_k, x))
                # L_own = CE(z_p) + KL(p_small || p_own) + CE(w z_p + (1 - w) sg(z_s))
                loss_own = cross_entropy(z_p, y)
                loss_own = loss_own + kl_divergence(softmax(z_s).detach(), z_p)
                loss_own = loss_own + cross_entropy(ensemble(w, z_p, z_s.detach()), y)
                # L_small = CE(z_s) + KL(p_own || p_small) + CE(w sg(z_p) + (1 - w) z_s)
                loss_small = cross_entropy(z_s, y)
                loss_small = loss_small + kl_divergence(softmax(z_p).detach(), z_s)
                loss_small = loss_small + cross_entropy(ensemble(w, z_p.detach(), z_s), y)
                g_own = gradient(loss_own, own_k)
                g_small = gradient(loss_small, small_k)
                own_k, v_own = descend(rule, own_k, g_own, v_own)
                small_k, v_small = descend(rule_small, small_k, g_small, v_small)
            client.params = {**client.params, **copied(own_k), **copied(small_k), "ensemble.weight": w}
            uploads[k] = copied(small_k)
        if uploads:
            # 1/K times the sum over k in S of small_k
            small = unweighted(uploads)
    return small, [copied(client.params) for client in clients]


def fedapen_predict(
    client: PartedClient, held: Params, small_body: Forward, small_head: Forward, received: Params, x: Tensor
) -> Tensor:
    """The logits w z_p + (1 - w) z_s, of the small model as received: the average, not the client's trained copy."""
    z_p = client.head(held, client.body(held, x))
    z_s = small_head(received, small_body(received, x))
    return ensemble(held["ensemble.weight"], z_p, z_s)
