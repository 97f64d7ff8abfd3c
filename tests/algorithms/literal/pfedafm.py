"""pFedAFM, written out: a shared extractor G beside every client's own, and a trained vector that mixes the two.

Source: L. Yi, H. Yu, C. Ren, H. Zhang, G. Wang, X. Liu, X. Li, "pFedAFM: Adaptive Feature Mixture for Batch-Level
Personalization in Heterogeneous Federated Learning", arXiv 2404.17847, section 4 with equations 2 to 11 and Algorithm
1, and section 6.5.2 for end-to-end training. The released code (github.com/LipingYi/pFedAFM, pFedAFM.py and
pFedAFM_mh.py, commit 6987e44) is followed only in the options that stand for it.

The paper's symbols are F_k^ex for "body.", F_k^hd for "head.", alpha_k for "mixer.weight" and theta for "extractor.".

Where the source is silent or contradicts itself:

* alpha_{k,i} has an index for the sample (or batch) i. Algorithm 1 starts from one vector for each client, and sections
  6.3.3 and 6.4 speak of a client's vector. Hence one vector per client, used for every sample of a batch and updated
  with every batch; the client keeps it from round to round. (A vector for every sample could not be used for test
  data.)
* Algorithm 1 starts alpha_k at 1, section 4 does not say: at 1, unless ``params`` holds another.
* Equations 6 and 10, as in pFedES, print a step from the values of round t - 1. Read as descent over batches, each step
  starting where the one before ended.
* The header in step 2: omega_k^{hd,t} in section 4.1.2 and equation 8, omega_k^{hd,t-1} in Algorithm 1. The text says
  "the updated parameters", so that of t.
* Equation 10 has theta^t for what client k trains, equation 11 theta_k^t; here theta_k. It starts at theta^{t-1}.
* n in equation 11 is "the total size of all clients' local datasets", that is, of all N. Here that of S^t, so that the
  weights sum to 1, as in the released code. n_k is the training data (the released code counts the test data as well).
* The steps on omega_k and alpha_k in equation 6 are one after the other on the page, but of the same loss l_i, so both
  gradients are taken before either step.
* Is alpha_k confined to [0, 1]? The paper says nothing. ``clamp`` is the released code, which cuts it to [0, 1] both
  just before and just after the step of the optimiser. The former changes nothing where alpha_k starts within [0, 1],
  and is left out: here a projection follows every step. The momentum is not touched by it.
* Clipping, momentum and weight decay are not in the paper. In the released code F_k and G are clipped and alpha_k is
  not, while alpha_k has momentum and weight decay too. All of it is left to the three rules.
* End-to-end training (6.5.2) has no equations: "updating them simultaneously". It stands in the released code as a
  comment: one pass over the data, in which the loss of equation 5 gives the gradient of F_k, alpha_k and G alike. Done
  so here; what is uploaded and aggregated stays as it is.
* ``aggregation="last"``: the released code collects the state_dict of one and the same module for all clients, without
  copying. So all of them are what the last client trained, and their weighted sum, equation 11, is that too. There the
  clients of a round come in random order; here they come in ascending order, and the last is the one of highest number.
* What a client keeps of G: the output of Algorithm 1 joins F_k with the global G(theta^{T-1}). The caller wants G as
  the client trained it; it is kept beside that, and never used in training.
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
    """Client k with G beside its own model; ``params`` may hold "mixer.weight", alpha_k, besides body and head."""

    extractor: Forward  # G: (theta; x) -> representations


def mixed_logits(client: MixedClient, params: Params, theta: Params, x: Tensor) -> Tensor:
    """The prediction of the mixed model, equations 2 to 4; ``params`` has body, head and mixer, ``theta`` is of G."""
    alpha_k = params["mixer.weight"]
    R_G = client.extractor(part(theta, "extractor"), x)  # (2)
    R_F = client.body(part(params, "body"), x)  # (2)
    R = R_G * (1 - alpha_k) + R_F * alpha_k  # (3)
    return client.head(part(params, "head"), R)  # (4)


def projected(alpha: Params) -> Params:
    """Each entry of alpha_k moved to the nearest point of [0, 1], as new tensors of which gradients can be taken."""
    return trainable({name: torch.clamp(value.detach(), 0.0, 1.0) for name, value in alpha.items()})


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
    """Algorithm 1.

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
    if training not in ("iterative", "end-to-end"):
        raise ValueError(training)
    if aggregation not in ("average", "last"):
        raise ValueError(aggregation)
    if extractor_rule is None:
        extractor_rule = rule
    theta = copied(theta)
    for client in clients:
        if "mixer.weight" not in client.params:
            K = client.body(part(client.params, "body"), client.x[:1]).shape[1]
            client.params = {**client.params, "mixer.weight": torch.ones(K, dtype=torch.float64)}
    for t, cohort in enumerate(cohorts, start=1):
        S = selected(cohort)
        theta_uploaded: dict[int, Params] = {}
        n: dict[int, int] = {}
        for k in S:
            client = clients[k]
            if training == "iterative":
                omega_k, alpha_k = _train_local(client, batches(t, k, 0), rule, mixer_rule, theta, clamp)
                theta_k = _train_extractor(client, batches(t, k, 1), extractor_rule, theta, omega_k)
            else:
                omega_k, alpha_k, theta_k = _train_end_to_end(
                    client, batches(t, k, 0), rule, mixer_rule, extractor_rule, theta, clamp
                )
            client.params = {**omega_k, **alpha_k, **copied(theta_k)}
            theta_uploaded[k] = theta_k
            n[k] = len(client.y)
        if not S:
            continue
        # (11)
        theta = aggregate(theta_uploaded, n) if aggregation == "average" else copied(theta_uploaded[S[-1]])
    return theta, [client.params for client in clients]


def _train_local(
    client: MixedClient, batches: list[list[int]], rule: Rule, mixer_rule: Rule, theta: Params, clamp: bool
) -> tuple[Params, Params]:
    """Section 4.1.1: G is frozen, F_k and alpha_k are trained."""
    omega_k = trainable(part(client.params, "body", "head"))
    alpha_k = trainable(part(client.params, "mixer"))
    v_omega = None
    v_alpha = None
    for batch in batches:
        x, y = samples(client, batch)
        y_hat = mixed_logits(client, {**omega_k, **alpha_k}, theta, x)  # (2) to (4)
        loss = cross_entropy(y_hat, y)  # (5)
        g_omega = gradient(loss, omega_k)
        g_alpha = gradient(loss, alpha_k)
        omega_k, v_omega = descend(rule, omega_k, g_omega, v_omega)  # (6)
        alpha_k, v_alpha = descend(mixer_rule, alpha_k, g_alpha, v_alpha)  # (6)
        if clamp:
            alpha_k = projected(alpha_k)
    return copied(omega_k), copied(alpha_k)


def _train_extractor(
    client: MixedClient, batches: list[list[int]], extractor_rule: Rule, theta: Params, omega_k: Params
) -> Params:
    """Section 4.1.2: the header, as it has just been trained, is frozen, and G is trained, without any mixing."""
    theta_k = trainable(theta)
    v = None
    for batch in batches:
        x, y = samples(client, batch)
        R = client.extractor(part(theta_k, "extractor"), x)  # (7)
        y_hat = client.head(part(omega_k, "head"), R)  # (8)
        loss = cross_entropy(y_hat, y)  # (9)
        theta_k, v = descend(extractor_rule, theta_k, gradient(loss, theta_k), v)  # (10)
    return copied(theta_k)


def _train_end_to_end(
    client: MixedClient,
    batches: list[list[int]],
    rule: Rule,
    mixer_rule: Rule,
    extractor_rule: Rule,
    theta: Params,
    clamp: bool,
) -> tuple[Params, Params, Params]:
    """Section 6.5.2: F_k, alpha_k and G are trained at once."""
    omega_k = trainable(part(client.params, "body", "head"))
    alpha_k = trainable(part(client.params, "mixer"))
    theta_k = trainable(theta)
    v_omega = None
    v_alpha = None
    v_theta = None
    for batch in batches:
        x, y = samples(client, batch)
        y_hat = mixed_logits(client, {**omega_k, **alpha_k}, theta_k, x)  # (2) to (4)
        loss = cross_entropy(y_hat, y)  # (5)
        g_omega = gradient(loss, omega_k)
        g_alpha = gradient(loss, alpha_k)
        g_theta = gradient(loss, theta_k)
        omega_k, v_omega = descend(rule, omega_k, g_omega, v_omega)  # (6)
        alpha_k, v_alpha = descend(mixer_rule, alpha_k, g_alpha, v_alpha)  # (6)
        theta_k, v_theta = descend(extractor_rule, theta_k, g_theta, v_theta)  # (10), with the loss of (5)
        if clamp:
            alpha_k = projected(alpha_k)
    return copied(omega_k), copied(alpha_k), copied(theta_k)
