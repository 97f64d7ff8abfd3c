"""FedAPEN, written out.

Source: Z. Qin, S. Deng, M. Zhao, X. Yan, "FedAPEN: Personalized Cross-silo Federated Learning with Adaptability to
Statistical Heterogeneity", KDD 2023. Of the paper only the abstract could be had. What is transcribed is the authors'
code, repository zhenqincn/FedAPEN: `learned_adaptive_mutual` in trainer.py ("Learning for Ensemble"),
`Node.learn_weight_for_inference` ("Learning for Adaptability") and `ServerNode.aggregate` in node.py, the order of a
round in main.py, `_eval_ensemble_model` in recorder.py. One sentence of pFedAFM's related work
(arXiv 2404.17847) says what the paper does, and agrees: a weight for the output logits of the heterogeneous model is
trained on part of the local data, one minus it is the weight of the small model, then both models learn with the weight
fixed. No equation number could be checked, so none is given.

Where that is silent or not of one mind:

* Logits or probabilities. The code weights logits, and so does this. A public implementation that cites an "Eq. 6" of
  the paper weights probabilities; the paper itself could not be asked.
* Direction of the divergence. In the code the private model's is KL(p_s || p_p), the shared one's KL(p_p || p_s): who
  teaches comes first. The same public implementation has it the other way round in both.
* When w_k adapts. In the code all nodes adapt after each aggregation, to the average just made; what is learned then
  serves for the evaluation at once and in the training of the next round. Adapting at the start of the rounds from 2
  on, with the small model received then, is the same when everyone is always selected, save that the code adapts once
  more after the last round. Here nobody adapts after the last round, and `fedapen_predict` takes w_k as it is held.
* Selection. Everybody takes part in the code. Here those adapt who are selected, from round 2 on, also if it is their
  first time, from w_k = start; who was never selected holds F_k and w_k, for it has not been sent a small model.
* w_k is kept within [0, 1] after every step, as the code does by clipping. Its steps are plain gradient descent. (The
  code's are too: SGD with a learning rate of 0.001, ten epochs.)
* w_k is one number, a tensor without dimensions here, of one entry in the code.
* The three terms of either loss count alike, as in the code; the average counts all selected clients alike.
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
    """The logits of both together: those of F_k weighted by w_k, those of the small model by 1 - w_k."""
    return w * z_p + (1.0 - w) * z_s


def _small_logits(small_body: Forward, small_head: Forward, small: Params, x: Tensor) -> Tensor:
    """The logits of the small model."""
    return small_head(part(small, "small_head"), small_body(part(small, "small_body"), x))


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
    """w_k after learning for adaptability, with both models fixed.

    Args:
        client: Client k, with held-out data.
        w: w_k before.
        own: F_k.
        small_body: The body of the small model.
        small_head: The head of the small model.
        small: The small model received.
        batches: Positions in the held-out data.
        learning_rate: That of w_k.

    Returns:
        w_k afterwards.
    """
    w = w.detach().clone()
    for batch in batches:
        if client.holdout_x is None or client.holdout_y is None:
            raise ValueError("FedAPEN adapts on held-out data, of which a client has none")
        x, y = drawn(client.holdout_x, client.holdout_y, batch)
        z_p = client.forward(part(own, "body", "head"), x).detach()
        z_s = _small_logits(small_body, small_head, small, x).detach()
        w = w.requires_grad_()
        loss = cross_entropy(ensemble(w, z_p, z_s), y)
        (g,) = torch.autograd.grad(loss, [w])
        w = (w.detach() - learning_rate * g).clamp(0.0, 1.0)
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
    """FedAPEN written out.

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
    shared = copied(small)
    held = [
        {**copied(part(client.params, "body", "head")), "ensemble.weight": torch.tensor(start, dtype=torch.float64)}
        for client in clients
    ]
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]
            private = part(held[k], "body", "head")
            w = held[k]["ensemble.weight"]
            training = 0
            if t > 1:
                adapting = batches(t, k, 0)
                w = adapted(client, w, private, small_body, small_head, shared, adapting, adapt_learning_rate)
                training = 1
            w_p = trainable(private)
            w_s = trainable(shared)
            v_p: Params | None = None
            v_s: Params | None = None
            for batch in batches(t, k, training):
                x, y = drawn(client.x, client.y, batch)
                z_p = client.forward(w_p, x)
                z_s = _small_logits(small_body, small_head, w_s, x)
                p_p = softmax(z_p).detach()
                p_s = softmax(z_s).detach()
                # loss_private and loss_shared of learned_adaptive_mutual
                loss_p = (
                    cross_entropy(z_p, y) + kl_divergence(p_s, z_p) + cross_entropy(ensemble(w, z_p, z_s.detach()), y)
                )
                loss_s = (
                    cross_entropy(z_s, y) + kl_divergence(p_p, z_s) + cross_entropy(ensemble(w, z_p.detach(), z_s), y)
                )
                g_p = gradient(loss_p, w_p)
                g_s = gradient(loss_s, w_s)
                w_p, v_p = descend(rule, w_p, g_p, v_p)
                w_s, v_s = descend(small_rule or rule, w_s, g_s, v_s)
            held[k] = {**copied(w_p), **copied(w_s), "ensemble.weight": w.detach().clone()}
            uploads[k] = copied(w_s)
        if uploads:
            shared = unweighted(uploads)  # ServerNode.aggregate
    return shared, held


def fedapen_predict(
    client: PartedClient, held: Params, small_body: Forward, small_head: Forward, received: Params, x: Tensor
) -> Tensor:
    """The logits with which client k predicts: its F_k and the small model received, together.

    Args:
        client: Client k.
        held: What it holds: F_k and w_k are taken from it, the small model it trained is not.
        small_body: The body of the small model.
        small_head: The head of the small model.
        received: The small model it was last sent.
        x: The inputs.

    Returns:
        Logits; the prediction is the largest.
    """
    z_p = client.forward(part(held, "body", "head"), x)
    z_s = _small_logits(small_body, small_head, received, x)
    return ensemble(held["ensemble.weight"], z_p, z_s).detach()
