"""FedClassAvg, written out: the classifiers are averaged, and each client learns its representations by contrast.

Source: J. Jang, H. Ha, D. Jung, S. Yoon, "FedClassAvg: Local Representation Learning for Personalized Federated
Learning on Heterogeneous Neural Networks", ICPP 2022, section 3.2 with equations 3 to 5 and Algorithm 1, section 4.3
for sharing all weights, section 5.1 for leaving terms out. The contrastive loss is only cited there, from P. Khosla et
al., "Supervised Contrastive Learning", NeurIPS 2020 (arXiv 2004.11362), section 3.2.2, equation 2, here marked (SC 2).
"release" is taken from the released code: github.com/hukla/FedClassAvg, src/heteropfl_utils.py and src/losses.py, alike
in commits 479153c, 4a83385 and 2132360, the latter file being that of github.com/HobbitLong/SupContrast.

The paper's symbols are w_{F_k} for "body." and w_{C_k} for "head."; x' is ``x`` and x'' is ``x2``.

Where the source is silent or contradicts itself:

* L^CL has no formula. (SC 2) is a sum over all 2B anchors. Two readings: that sum, or its mean. Chosen is the mean: the
  other term of equation 4, L^CE, is a mean over the batch, and both public implementations take the mean. The sum is 2B
  times as large.
* Of the two losses of Khosla et al. it is L_out, to which they keep "throughout the rest of the paper".
* Whether features are normalised: Khosla et al. put those they compare on the unit sphere, after a projection network,
  which FedClassAvg does not have. Equation 4 compares F_k(x') and F_k(x''). So, for "paper", the features of the
  extractor, normalised. A feature of norm 0 stays 0.
* tau is not among the hyperparameters of Table 1. It is the caller's.
* "release": the loss is built with temperature=100, while base_temperature stays 0.07 (a line with temperature=0.07 is
  commented out), and the normalisation is commented out too. So features are as the extractor gives them, tau is 100,
  and the mean over the anchors is multiplied by temperature / base_temperature = 100 / 0.07. Were it built with its
  defaults, 0.07 and 0.07, the factor would be 1. ``tau`` is not used.
* What "release" does not stand for: the released proximal term is mu / 2 times the sum, over the tensors of the
  classifier, of the mean squared difference, and is left out at the first batch of every epoch; the optimiser is Adam;
  every client trains once before round 1; incomplete batches are dropped. ``scaling`` is about the contrastive loss
  alone, and equation 5 stays as printed.
* Equation 5 is the norm, not its square, although the text calls it "similar to FedProx". Taken as printed, of weight
  and bias together as one vector (the other reading: a sum of one norm for each tensor). It has no derivative at 0,
  where every client starts: 0 is taken, which is a subgradient. The arguments are swapped between equations 4 and 5,
  which does not matter.
* Algorithm 1 hands ClientUpdate the client's own classifier and defines it for the global one; the text replaces the
  local classifier by the global one, which is done here. Its line 6 gives w_C^{t+1}, and so does equation 3: it is what
  round t + 1 starts from. In round 1 that is ``initial``; Algorithm 1 initialises the w_k only.
* Equation 3 sums over all K clients, with |D| the data of all. Clients are sampled (line 4): here the sum is over
  those, and the weights sum to 1, as in the released code.
* L^CE is of x' alone (below equation 4).
* "+weight" (4.3): all weights are averaged and replace the clients'. "only proximal regularization regularizes the
  classifier weights" is read so that the proximal term is of the classifier alone, as before; the contrastive loss
  stays (the released hetero_fedavg_cl_homo_mpi.py does both).
* Without averaging (the baseline of section 4.2, "trained using only the local data") there is no global classifier and
  so no proximal term. The contrastive loss is a switch of its own.
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

_RELEASED_TEMPERATURE = 100.0
_RELEASED_BASE_TEMPERATURE = 0.07


@dataclass
class TwoViewClient(PartedClient):
    """Client k with two augmentations of its data: ``x`` has x' and ``x2`` has x'' of each sample."""

    x2: Tensor


def normalised(z: Tensor) -> Tensor:
    """Each row divided by its Euclidean norm."""
    rows = []
    for z_i in z:
        norm = (z_i**2).sum()
        if norm.item() == 0.0:
            rows.append(z_i)
        else:
            rows.append(z_i / torch.sqrt(norm))
    return torch.stack(rows)


def contrastive(z: Tensor, labels: list[int], tau: float) -> Tensor:
    """The mean over all anchors i in I of L_out,i.

    Args:
        z: The features of the multiviewed batch, one row for each i in I.
        labels: Their classes.
        tau: The temperature.

    Returns:
        The loss. Anchors that have no positive have no loss; with two views of each sample there are none.
    """
    indices = range(len(labels))  # I
    losses = []
    for i in indices:
        A = [a for a in indices if a != i]
        P = [p for p in A if labels[p] == labels[i]]
        if not P:
            continue
        denominator = torch.logsumexp(torch.stack([z[i] @ z[a] / tau for a in A]), dim=0)  # the log of it
        total = torch.zeros((), dtype=torch.float64)
        for p in P:
            total = total + (z[i] @ z[p] / tau - denominator)
        losses.append(-total / len(P))  # (SC 2)
    return torch.stack(losses).sum() / len(losses)


def contrastive_loss(
    z1: Tensor, z2: Tensor, y: Tensor, tau: float, scaling: Literal["paper", "release"] = "paper"
) -> Tensor:
    """L^CL of equation 4.

    Args:
        z1: F_k(x').
        z2: F_k(x'').
        y: The classes of the samples.
        tau: The temperature of "paper".
        scaling: "paper" normalises the features and uses tau. "release" does neither: its temperature is 100, and the
            loss is multiplied by 100 / 0.07.

    Returns:
        The loss.
    """
    z = torch.cat([z1, z2])
    labels = y.tolist() + y.tolist()
    if scaling == "paper":
        return contrastive(normalised(z), labels, tau)
    if scaling == "release":
        factor = _RELEASED_TEMPERATURE / _RELEASED_BASE_TEMPERATURE
        return factor * contrastive(z, labels, _RELEASED_TEMPERATURE)
    raise ValueError(scaling)


def distance(w: Params, other: Params) -> Tensor:
    """Equation 5: the Euclidean norm of the difference, of all tensors as one vector; its derivative at 0 is 0."""
    squares = torch.zeros((), dtype=torch.float64)
    for name in w:
        squares = squares + ((w[name] - other[name]) ** 2).sum()
    if squares.item() == 0.0:
        return squares  # is 0, as the norm is, and its derivative is 0 too
    return torch.sqrt(squares)  # (5)


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
    """Algorithm 1.

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
    if share not in ("classifier", "all"):
        raise ValueError(share)
    networks = ("head",) if share == "classifier" else ("body", "head")
    w = copied(part(initial, *networks))
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        D: dict[int, int] = {}
        for k in selected(cohort):
            client = clients[k]
            w_k = trainable({**client.params, **w} if averaging else client.params)
            v = None
            for batch in batches(t, k, 0):
                x1, y = samples(client, batch)
                x2 = client.x2[torch.tensor(batch, dtype=torch.long)]
                z1 = client.body(part(w_k, "body"), x1)
                y_hat = client.head(part(w_k, "head"), z1)
                loss = cross_entropy(y_hat, y)  # (4), L^CE
                if with_contrastive:
                    z2 = client.body(part(w_k, "body"), x2)
                    loss = loss + contrastive_loss(z1, z2, y, tau, scaling)  # (4), L^CL
                if averaging:
                    loss = loss + rho * distance(part(w_k, "head"), part(w, "head"))  # (4), L^R
                w_k, v = descend(rule, w_k, gradient(loss, w_k), v)
            client.params = copied(w_k)
            uploads[k] = copied(part(w_k, *networks))
            D[k] = len(client.y)
        if uploads and averaging:
            w = aggregate(uploads, D)  # (3)
    return w, [client.params for client in clients]
