"""FedProto, written out.

Source: Y. Tan, G. Long, L. Liu, T. Zhou, Q. Lu, J. Jiang, C. Zhang, "FedProto: Federated Prototype Learning across
Heterogeneous Clients", AAAI 2022, arXiv 2105.00243: equations 3 to 8 and Algorithm 1, read in full. Second, for what
the paper leaves open, the authors' repository yuetan031/FedProto: lib/update.py (`update_weights_het`), lib/utils.py
(`agg_func`, `proto_aggregation`), exps/federated_main.py.

Where this departs from the paper, by choice of what it is laid beside:

* Equation 6 is 1 / |N_j| * sum over i in N_j of |D_ij| / N_j * C_i^(j), where N_j under the sum is the number of
  instances of class j and |N_j| the number of clients that have it. The weights |D_ij| / N_j already sum to 1, and the
  factor before the sum shrinks each prototype by the number of its clients. Here the factor is left out: the
  prototype is the mean weighted by counts. (The released code has neither: it is the plain mean over clients. That
  equation 6 divides twice is asked in issue 6 of the repository, without an answer.)
* Equation 8 is a sum over classes of a distance between the client's prototype of the class and the global one, "L2
  distance" by the text of equation 5; in Algorithm 1 the client's prototype is that of the batch. Here, as in the
  released code (MSELoss), it is the squared distance between each sample's representation and the global prototype of
  its class, averaged over the batch and the dimensions, so that lambda is the code's.

Where the paper is silent or contradicts itself:

* A sample whose class has no global prototype adds nothing, and counts in the divisor of the batch, as in the code.
  In round 1 there are no global prototypes, as in the code; Algorithm 1 "initializes" them and does not say to what.
* What is uploaded. Equation 3 is a mean over D_ij; line 3 of LocalUpdate computes it from a batch, before the step, and
  line 8 returns it. The released code averages the representations that the last epoch made while the model learned.
  Here equation 3 is computed over all of D_ij with the model after training.
* Line 7 of the server's part overwrites client's prototypes with global ones: nothing else uses them.
* Selection. Everybody takes part in the paper. Here N_j and |D_ij| are those of the selected clients, and a class that
  none of them has keeps the prototype it had. (The released code starts from nothing in each round.)
* Prediction by equation 4 is not part of this.
"""

from __future__ import annotations

from dataclasses import replace

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
from .parted import class_counts, class_means, drawn

Prototypes = dict[int, Tensor]
"""C-bar^(j), the global prototype of class j, for the classes that have one."""


def distance_to_prototypes(rep: Tensor, y: Tensor, prototypes: Prototypes) -> Tensor:
    """L_R of a batch: the squared distance of each sample to the prototype of its class, as a mean over all entries.

    Args:
        rep: The representations h = f(phi; x).
        y: The labels.
        prototypes: The global prototypes; a sample whose class has none adds nothing.

    Returns:
        The sum of squared distances, divided by the number of all samples and of dimensions.
    """
    total = torch.zeros((), dtype=torch.float64)
    for h, j in zip(rep, y.tolist(), strict=True):
        if j in prototypes:
            total = total + ((h - prototypes[j].detach()) ** 2).sum()  # d of 8, squared, for one sample
    return total / rep.numel()


def train_with_prototypes(
    client: PartedClient, batches: list[list[int]], rule: Rule, prototypes: Prototypes, lam: float
) -> Params:
    """The model of a client after LocalUpdate, which starts from ``client.params`` and leaves them alone.

    Args:
        client: Client i.
        batches: The batches of all epochs.
        rule: The optimiser.
        prototypes: The global prototypes.
        lam: The weight of the distance to them.

    Returns:
        omega_i, which is body and head.
    """
    omega = trainable(part(client.params, "body", "head"))
    v: Params | None = None
    for batch in batches:
        x, y = drawn(client.x, client.y, batch)
        h = client.body(part(omega, "body"), x)
        z = client.head(part(omega, "head"), h)
        loss = cross_entropy(z, y) + lam * distance_to_prototypes(h, y, prototypes)  # 7
        omega, v = descend(rule, omega, gradient(loss, omega), v)
    return copied(omega)


def fedproto(
    clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule, lam: float
) -> tuple[Prototypes, list[Params]]:
    """FedProto written out.

    Args:
        clients: All N clients, with representations of one size.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser.
        lam: The weight of the distance to the prototypes.

    Returns:
        The prototypes by class after the last round, and what every client holds.
    """
    C_bar: Prototypes = {}
    held = [copied(part(client.params, "body", "head")) for client in clients]
    for t, cohort in enumerate(cohorts, start=1):
        C: dict[int, Prototypes] = {}
        D: dict[int, dict[int, int]] = {}
        for i in selected(cohort):
            client = clients[i]
            held[i] = train_with_prototypes(replace(client, params=held[i]), batches(t, i, 0), rule, C_bar, lam)
            C[i] = class_means(client.body(part(held[i], "body"), client.x), client.y)  # 3
            D[i] = class_counts(client.y)
        for j in sorted({j for i in C for j in C[i]}):
            N_j = sum(D[i][j] for i in C if j in C[i])
            terms = [D[i][j] / N_j * C[i][j] for i in C if j in C[i]]
            C_bar = {**C_bar, j: torch.stack(terms).sum(dim=0)}  # 6, without 1 / |N_j|
    return C_bar, held
