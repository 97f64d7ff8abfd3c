"""Federated distillation, written out.

Source: E. Jeong, S. Oh, H. Kim, J. Park, M. Bennis, S.-L. Kim, "Communication-Efficient On-Device Machine Learning:
Federated Distillation and Augmentation under Non-IID Private Data", NeurIPS 2018 workshop MLPCD 2, arXiv 1811.11479,
section 2 and Algorithm 1, read in full. The authors released no code that could be found. The equations have no
numbers; the lines named are those of Algorithm 1. Augmentation (FAug, section 3) is not part of this.

Where the paper is silent or contradicts itself, and where this departs from it:

* What is averaged. F(w, a) is "the logit vector normalized by the softmax function": the paper's logits are
  probabilities. Uploaded are mean probabilities. (HtFLlib uploads means of what comes before the softmax.)
* When. A departure: line 6 adds up the outputs as the model makes them during training, sample by sample, with the
  weights of that moment (of just after the sample's own step), so that a sample drawn twice counts twice. Here they are
  computed once, after local training, by one pass over the client's data.
* Steps. A departure: line 5 takes a step for each sample of the batch. Here a batch is one step, on its mean loss.
* Who is averaged. The text first speaks of averaging over "all devices"; its definition of F-hat, and lines 12 and 15,
  leave out the device that is to learn: the average over j != i, which is what is done here.
* The divisor is M - 1, with every device having every label. The paper does not say what a device uploads for a label
  it has no sample of (its line 8 would divide by zero). Here it uploads nothing for it, and the divisor is the number
  of other devices that have contributed to the label. If there is none, the label has no target.
* Samples whose label has no target are not distilled. They count in the divisor of the batch, so that each sample's own
  loss has the same weight whatever else is in its batch. In round 1 nobody distils.
* phi(p, q) is "the cross entropy between p and q", whose order is not said. With labels it is that of the prediction
  under the label, so here it is that of the prediction under the target: - sum_c target_c * log F_c. No temperature.
* Selection. Everybody takes part in the paper, and what is averaged is of one round. Here too: a label's contributions
  are those of the last round in which a selected client had it. What is uploaded in a round serves from the next on
  (k + 1 in line 15).
"""

from __future__ import annotations

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
    selected,
    trainable,
)
from .parted import average, class_means, drawn, log_softmax, softmax

Contributions = dict[int, dict[int, Tensor]]
"""By label l and client j, F-bar_l^(j): the mean probabilities that client j has for its samples of label l."""


def targets_for(k: int, contributions: Contributions) -> dict[int, Tensor]:
    """F-hat^(k): for each label, the average over the other clients that contributed to it (line 15)."""
    targets = {}
    for label in sorted(contributions):
        others = [contributions[label][j] for j in sorted(contributions[label]) if j != k]
        if others:
            targets[label] = average(others)
    return targets


def distillation(z: Tensor, y: Tensor, targets: dict[int, Tensor]) -> Tensor:
    """phi(F(w, b), F-hat_{y_b}), the distillation regulariser of a batch.

    Args:
        z: The model's logits, before the softmax.
        y: The labels.
        targets: F-hat, for the labels that have one.

    Returns:
        The sum over the samples whose label has a target, divided by the number of all samples.
    """
    total = torch.zeros((), dtype=torch.float64)
    for log_F, label in zip(log_softmax(z), y.tolist(), strict=True):
        if label in targets:
            total = total - (targets[label].detach() * log_F).sum()
    return total / len(y)


def fd(
    clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule, lam: float
) -> tuple[Contributions, list[Params]]:
    """FD written out.

    Args:
        clients: All N clients.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser.
        lam: The weight of distillation, the paper's gamma.

    Returns:
        The contributions that the server keeps, by class and client, and what every client holds.
    """
    contributions: Contributions = {}
    held = [copied(part(client.params, "body", "head")) for client in clients]
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, dict[int, Tensor]] = {}
        for k in selected(cohort):
            client = clients[k]
            targets = targets_for(k, contributions)
            w = trainable(held[k])
            v: Params | None = None
            for batch in batches(t, k, 0):
                x, y = drawn(client.x, client.y, batch)
                z = client.forward(w, x)
                loss = cross_entropy(z, y) + lam * distillation(z, y, targets)  # line 5
                w, v = descend(rule, w, gradient(loss, w), v)
            held[k] = copied(w)
            uploads[k] = class_means(softmax(client.forward(held[k], client.x)), client.y)  # lines 6 to 8
        for label in sorted({label for k in uploads for label in uploads[k]}):
            contributions[label] = {k: uploads[k][label] for k in uploads if label in uploads[k]}
    return contributions, held
