"""FedGH, written out: the server trains the header of all clients on the means of their representations.

Source: L. Yi, G. Wang, X. Liu, Z. Shi, H. Yu, "FedGH: Heterogeneous Federated Learning with Generalized Global Header",
ACM MM 2023 (the text of arXiv 2303.13137), section 3.2 with equations 3 to 6, Algorithm 1, and "Training process of
FedGH" in section 5.1. The released code (github.com/LipingYi/FedGH, FedGH.py and FedGH_mh.py, commit 2a6a29d) was read
for comparison; where it departs from the paper, the paper is followed.

The paper's symbols are phi_k for "body." and theta for "head.".

Where the source is silent or contradicts itself:

* Indices: Algorithm 1 counts t from 0 and has the clients of round t receive theta^{t-1}, which in its first round does
  not exist. Rounds are t = 1, 2, ..., and those selected for round 1 start from theta^0, the header the server has
  drawn ("Randomly initialize the heterogeneous local models and global header theta^0"). The released code leaves the
  clients of the first round their own headers.
* Equation 4 is a step from theta^{t-1} for one representation, and in Algorithm 1 there is one step for each client,
  with s free. Section 5.1 settles it: "In the order of client id, the server inputs the LAR of a class from one client
  into the global header once", then updates. So steps follow on one another, clients in ascending order, and within a
  client one step for each class it has. The order of the classes is not given: ascending. This is mode
  "representation".
* Mode "client" is the end of the same paragraph, where the representations of one client are a batch of mini-batch
  gradient descent: one step for each client, with the mean of its losses (a sum would be another reading; l is a mean
  elsewhere).
* "Once" is ``passes = 1``. With more, the whole sequence is repeated on the same representations.
* The server's optimiser is plain gradient descent (equation 4). In the released code it is, by mistake, the optimiser
  of a client's model that takes the steps, so that the server's header never changes; not followed.
* Equation 3 is the mean over all of a client's samples of a class. The released code takes the mean of the means of the
  batches; not followed.
* Representations are taken by the model as local training left it (Algorithm 1), on the training data.
* Equation 6 is a step on all of D_k; read as descent over batches. Extractor and header are trained together.
* Nothing is weighted by n_k: the server has one representation for each client and class, however many samples it is
  of.
* A client that was not selected keeps its header (equation 5 is for those selected). What a client holds after the last
  round is what it trained, not what the server sent afterwards (Algorithm 1 returns omega_k^{T-1}).
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
    """Equation 3: for each class s of D_k, in ascending order, the mean of the extractor's outputs for its samples."""
    R = client.body(part(params, "body"), client.x).detach()  # R_{k,i}, one row for each sample
    R_bar: dict[int, Tensor] = {}
    for s in sorted(set(client.y.tolist())):
        D_k_s = [i for i, label in enumerate(client.y.tolist()) if label == s]
        total = torch.zeros_like(R[0])
        for i in D_k_s:
            total = total + R[i]
        R_bar[s] = total / len(D_k_s)  # (3)
    return R_bar


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
    """Algorithm 1.

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
    if mode not in ("representation", "client"):
        raise ValueError(mode)
    eta_theta = Rule(learning_rate=server_learning_rate)
    theta = copied(theta)
    for t, cohort in enumerate(cohorts, start=1):
        S = selected(cohort)

        # Clients.
        R_bar: dict[int, dict[int, Tensor]] = {}
        for k in S:
            client = clients[k]
            omega_k = trainable({**part(client.params, "body"), **theta})  # (5)
            v = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                loss = cross_entropy(client.forward(omega_k, x), y)
                omega_k, v = descend(rule, omega_k, gradient(loss, omega_k), v)  # (6)
            client.params = copied(omega_k)
            R_bar[k] = averaged_representations(client, client.params)  # (3)

        # Server.
        theta_t = trainable(theta)
        for _ in range(passes):
            for k in S:
                steps = [[s] for s in R_bar[k]] if mode == "representation" else [list(R_bar[k])]
                for classes in steps:
                    z = clients[k].head(theta_t, torch.stack([R_bar[k][s] for s in classes]))  # H, alike for all k
                    loss = cross_entropy(z, torch.tensor(classes))
                    theta_t, _v = descend(eta_theta, theta_t, gradient(loss, theta_t), None)  # (4)
        theta = copied(theta_t)
    return theta, [client.params for client in clients]
