"""pFedAFM written out equation by equation, to lay beside the paper.

The symbols are the paper's: omega_k are the parameters of client k's extractor F_k^ex (here its body) and header
F_k^hd (here its head), theta those of the shared extractor G, alpha_k the weights of the mixture.

* There is one vector alpha_k per client, as "[alpha_0, ..., alpha_{N-1}] = 1" in Algorithm 1 says; the index i of
  alpha_{k,i} counts the steps that change it.
* G is trained with the header omega^{hd,t} that the first step left, as the text and equation 8 say; Algorithm 1 prints
  omega^{hd,t-1} there.
* What is frozen is the same for every batch; what is trained starts each batch from what the batch before it left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .common import (
    Batches,
    Forward,
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
class MixedClient(PartedClient):
    """Client k with G. Its ``params`` may name "mixer.weight", which is alpha_k; without it alpha_k is 1."""

    extractor: Forward  # G(theta; x) -> representations


def mixed_logits(client: MixedClient, params: Params, theta: Params, x: Tensor) -> Tensor:
    """Equations 2 to 4: what the mixed model predicts, in training and after it."""
    alpha = params["mixer.weight"]
    # (2)
    r_g = client.extractor(theta, x)
    r_f = client.body(part(params, "body"), x)
    # (3), dimension by dimension: alpha belongs to the client's own representation
    r = torch.stack([r_g[:, j] * (1 - alpha[j]) + r_f[:, j] * alpha[j] for j in range(len(alpha))], dim=1)
    # (4)
    return client.head(part(params, "head"), r)


def projected(alpha: Params) -> Params:
    """Every component of alpha moved to the nearest number in [0, 1]."""
    return trainable({"mixer.weight": torch.clamp(alpha["mixer.weight"].detach(), 0, 1)})


def pfedafm(
    clients: list[MixedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    mixer_rule: Rule,
    theta: Params,
    extractor_rule: Rule | None = None,
    clamp: bool = False,
    training: Literal["iterative", "end-to-end"] = "iterative",
    aggregation: Literal["average", "last"] = "average",
) -> tuple[Params, list[Params]]:
    """pFedAFM: Algorithm 1, equations 2 to 11.

    Args:
        clients: All N clients, each with a model of its own and all with the same G.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, which trains F_k and alpha_k, and of phase 1, which trains G.
        rule: The optimiser of F_k, with eta_omega; body and head are one group.
        mixer_rule: The optimiser of alpha_k, with eta_alpha.
        theta: theta^0.
        extractor_rule: The optimiser of G; that of F_k if there is none ("we set eta_theta = eta_omega").
        clamp: Whether alpha_k is projected to [0, 1] after each step, which is not in the paper.
        training: "end-to-end" is section 6.5.2: phase 0 alone, in which equation 5 trains G too.
        aggregation: "last" gives the server the G of the last client of the cohort in place of equation 11.

    Returns:
        theta after the last round, and what every client holds: body, head, mixer, and G as it trained it itself.
    """
    rule_theta = rule if extractor_rule is None else extractor_rule
    n = {k: len(client.y) for k, client in enumerate(clients)}
    theta = copied(theta)
    for client in clients:
        if "mixer.weight" not in client.params:
            d = client.extractor(theta, client.x[:1]).shape[1]
            client.params = {**client.params, "mixer.weight": torch.ones(d, dtype=torch.float64)}

    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]

            # Freeze G, train F_k and alpha_k. End to end, G is not frozen.
            omega_k = trainable(part(client.params, "body", "head"))
            alpha_k = trainable(part(client.params, "mixer"))
            theta_k = trainable(theta)
            v_omega: Params | None = None
            v_alpha: Params | None = None
            v_theta: Params | None = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                # (5)
                loss = cross_entropy(mixed_logits(client, {**omega_k, **alpha_k}, theta_k, x), y)
                g_omega, g_alpha, g_theta = gradient(loss, omega_k), gradient(loss, alpha_k), gradient(loss, theta_k)
                # (6)
                omega_k, v_omega = descend(rule, omega_k, g_omega, v_omega)
                alpha_k, v_alpha = descend(mixer_rule, alpha_k, g_alpha, v_alpha)
                if clamp:
                    alpha_k = projected(alpha_k)
                if training == "end-to-end":
                    theta_k, v_theta = descend(rule_theta, theta_k, g_theta, v_theta)

            # Freeze the header, which is that of round t now, train G, which starts from theta^{t-1}.
            if training == "iterative":
                header = copied(part(omega_k, "head"))
                for batch in batches(t, k, 1):
                    x, y = samples(client, batch)
                    # (7), (8), (9)
                    loss = cross_entropy(client.head(header, client.extractor(theta_k, x)), y)
                    # (10)
                    theta_k, v_theta = descend(rule_theta, theta_k, gradient(loss, theta_k), v_theta)

            client.params = copied({**omega_k, **alpha_k, **theta_k})
            uploads[k] = copied(theta_k)
        if uploads:
            # (11), or what is put in its place
            theta = aggregate(uploads, n) if aggregation == "average" else uploads[max(uploads)]
    return theta, [copied(client.params) for client in clients]
