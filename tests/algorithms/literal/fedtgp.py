"""FedTGP, written out: the server trains global prototypes against the clients' class means, with a margin.

Source: J. Zhang, Y. Liu, Y. Hua, J. Cao, "FedTGP: Trainable Global Prototypes with Adaptive-Margin-Enhanced Contrastive
Learning for Data and Model Heterogeneity in Federated Learning", AAAI 2024, arXiv 2401.03230. Of the paper the
abstract, the caption of Figure 2 and summaries of the method could be read; its equations could not. That of the margin
is known at second hand: delta(t) = min(max over c != c' of the distance of Q_t^c and Q_t^c', tau), with Q_t^c the mean
of class c. All else is the authors' code: system/flcore/clients/clienttgp.py, system/main.py and system/run_me.sh of
TsingZ0/FedTGP, and, since the server's file of that repository could not be had, system/flcore/servers/servertgp.py of
TsingZ0/HtFLlib, the first author's library (called "the release" below). No equation number could be checked, so
none is given.

The symbols: P_i^c is the mean of client i's representations of class c; P-check^c a trainable vector for each class; F
two linear layers with a ReLU between them, the same for all classes; P-hat^c = F(P-check^c) the global prototype.

Where the sources are silent or disagree, or this departs from them:

* The margin. Q_t^c is the plain mean of the P_i^c uploaded in round t, as in the release. ``gap`` "paper" takes the
  largest distance between any two of them; "release" takes for each class the distance to the nearest other class, and
  of these the largest. Classes that were not uploaded take no part (the release gives them its smallest gap, which
  cannot become the largest). With one class alone there is no distance: the margin is tau, as in the release.
* The margin is added to the distance of the own class, which makes the own class look farther, and is a constant in
  the loss. It is computed once a round.
* The softmax is over all C classes, also classes that were not uploaded, as in the release.
* Distances are Euclidean. The release takes the root of p.p - 2 p.c + c.c, which is not a number when rounding makes
  that negative, and has no finite derivative at zero. Here it is the norm of the difference, of which the derivative
  at zero is taken to be zero.
* The loss of a batch of class means is the mean over the batch, as `nn.CrossEntropyLoss()` in the release.
* The server's optimiser is plain gradient descent for vectors and F alike. It takes the things uploaded in batches and
  in an order drawn anew in each epoch; the last batch may be smaller. The release has the clients' learning rate and
  batch size for the server (0.01 and 10 in run_me.sh) and 100 epochs; here they are arguments. The order is an
  argument, over the uploads sorted by client, then by class.
* The vectors and F stay from round to round; round t + 1 goes on from where round t left them.
* What clients minimise: cross-entropy plus lambda times the mean over batch and dimensions of the squared difference
  of representation and global prototype, `nn.MSELoss` in the code, whose comment says that this follows FedProto's
  code and that lambda is 10 by default there; run_me.sh has 10 as well. The global prototype is a constant.
* Nothing pulls in the first round: the code has no global prototypes until the server has trained, once. From then on
  every class has one.
* P_i^c is computed after local training, by the model it left, over all training data of the client.
* Selection. The server trains on the uploads of the round's cohort alone, as in the release. In a round without clients
  the server does nothing.
* Optimisers start afresh in each round, as in the code. Body and head are one group.
* Prediction by the nearest global prototype, which is how the code tests, is not part of this.

Example, with two clients, three classes and representations of two numbers. Bodies and heads are functions of
(parameters, x):

    >>> def body(p, x): return x @ p["body.w"].T
    >>> def head(p, h): return h @ p["head.w"].T
    >>> def ramp(*shape): return torch.arange(torch.Size(shape).numel(), dtype=torch.float64).sin().reshape(shape)
    >>> clients = [
    ...     PartedClient(
    ...         body,
    ...         head,
    ...         {"body.w": ramp(2, 4), "head.w": ramp(3, 2)},
    ...         x=ramp(3, 4) + k,  # 3 samples of 4 numbers
    ...         y=torch.tensor([0, 0, 1 + k]),
    ...     )
    ...     for k in range(2)
    ... ]
    >>> initial = {
    ...     "prototypes.embedding.weight": ramp(3, 2),  # [C, d]
    ...     "prototypes.0.weight": ramp(2, 2),  # [hidden, d]
    ...     "prototypes.0.bias": ramp(2),
    ...     "prototypes.2.weight": ramp(2, 2),  # [d, hidden]
    ...     "prototypes.2.bias": ramp(2),
    ... }
    >>> run = fedtgp(
    ...     clients,
    ...     cohorts=[[0], [0, 1]],  # rounds 1 and 2
    ...     batches=lambda t, k, phase: [[0, 1], [2]],  # two steps
    ...     rule=Rule(0.1),
    ...     initial=initial,
    ...     server_learning_rate=0.1,
    ...     server_epochs=3,
    ...     order=lambda t, epoch, n: list(range(n)),
    ... )
    >>> [sorted(means) for means in run.uploads[1].values()]  # the classes of clients 0 and 1, of round 2
    [[0, 1], [0, 2]]
    >>> [tuple(P_hat.shape) for P_hat in run.prototypes]  # after rounds 1 and 2
    [(3, 2), (3, 2)]
    >>> Q = run.uploads[0][0]  # one client alone in round 1: its means are the classes'
    >>> run.margins[0] == min(float(torch.linalg.vector_norm(Q[0] - Q[1])), 100.0)
    True
    >>> sorted(run.held[1])
    ['body.w', 'head.w']
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
    copied,
    cross_entropy,
    descend,
    gradient,
    part,
    selected,
    trainable,
)
from .parted import Order, average, class_means, drawn, squared_error

Gap = Literal["paper", "release"]
"""Of which distances between class means the margin is the largest: of all pairs, or of each class to its nearest."""

Upload = tuple[Tensor, int]
"""P_i^c and c."""


@dataclass(frozen=True)
class FedTGPRun:
    """What comes of a run. Lists by round start at round 1; ``held`` has an entry for every client.

    Attributes:
        params: By round, the trainable vectors and F after it.
        prototypes: By round, P-hat of all classes after it, [C, d].
        uploads: By round and client of the cohort, P_i^c by class.
        margins: By round, delta(t); None in a round without clients.
        held: By client, body and head as it trained them last.
    """

    params: list[Params]
    prototypes: list[Tensor]
    uploads: list[dict[int, dict[int, Tensor]]]
    margins: list[float | None]
    held: list[Params]


def tgp(params: Params) -> Tensor:
    """P-hat^c = F(P-check^c) for all classes c, [C, d].

    Args:
        params: "prototypes.embedding.weight" is P-check, [C, d]; "prototypes.0." and "prototypes.2." are the layers of
            F, with a "weight" [out, in] and a "bias" each.

    Returns:
        One row for each class.
    """
    rows = []
    for P_check in params["prototypes.embedding.weight"]:
        inner = params["prototypes.0.weight"] @ P_check + params["prototypes.0.bias"]
        inner = torch.where(inner > 0, inner, torch.zeros_like(inner))  # ReLU
        rows.append(params["prototypes.2.weight"] @ inner + params["prototypes.2.bias"])
    return torch.stack(rows)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """The Euclidean distance; its derivative is zero where it is zero."""
    norm: Tensor = torch.linalg.vector_norm(a - b)
    return norm


def centres(uploads: list[Upload]) -> dict[int, Tensor]:
    """Q^c: for each class that was uploaded, the plain mean over the clients that have it."""
    Q = {}
    for c in sorted({c for _, c in uploads}):
        Q[c] = average([P for P, label in uploads if label == c])
    return Q


def margin(uploads: list[Upload], tau: float, gap: Gap = "paper") -> float:
    """delta(t): the largest gap between the centres, but tau at most, and tau if there is one class alone.

    Args:
        uploads: The class means of the round.
        tau: The largest margin.
        gap: "paper" for the gaps of all pairs of classes, "release" for those of each class to its nearest.

    Returns:
        The margin.
    """
    Q = centres(uploads)
    if len(Q) < 2:
        return tau
    gaps = []
    for c in Q:
        others = [float(distance(Q[c], Q[d])) for d in Q if d != c]
        if gap == "paper":
            gaps.append(max(others))
        elif gap == "release":
            gaps.append(min(others))
        else:
            raise ValueError(gap)
    return min(max(gaps), tau)


def contrast(params: Params, batch: list[Upload], delta: float) -> Tensor:
    """The server's loss: the mean over the batch of -log of the share of the own class.

    For P of class c the share is exp(-(|P - P-hat^c| + delta)), divided by itself plus the sum over c' != c of
    exp(-|P - P-hat^c'|).
    """
    P_hat = tgp(params)
    rows = []
    for P, c in batch:
        logits = []
        for j in range(len(P_hat)):
            far = distance(P.detach(), P_hat[j])
            logits.append(-(far + delta) if j == c else -far)
        rows.append(torch.stack(logits))
    return cross_entropy(torch.stack(rows), torch.tensor([c for _, c in batch]))


def server_training(
    params: Params, uploads: list[Upload], delta: float, learning_rate: float, orders: list[list[int]], size: int
) -> Params:
    """The vectors and F after the server has trained them.

    Args:
        params: The vectors and F before.
        uploads: The class means of the round.
        delta: The margin.
        learning_rate: That of the server.
        orders: For each epoch, the order of the uploads.
        size: How many uploads make a batch.

    Returns:
        The vectors and F afterwards.
    """
    theta = trainable(params)
    for order in orders:
        for first in range(0, len(order), size):
            batch = [uploads[position] for position in order[first : first + size]]
            loss = contrast(theta, batch, delta)
            theta, _ = descend(Rule(learning_rate), theta, gradient(loss, theta), None)
    return copied(theta)


def local_loss(client: PartedClient, omega: Params, x: Tensor, y: Tensor, p_hat: Tensor | None, lam: float) -> Tensor:
    """Cross-entropy, and lambda times the mean squared difference to the prototypes of the samples' classes."""
    h = client.body(part(omega, "body"), x)
    loss = cross_entropy(client.head(part(omega, "head"), h), y)
    if p_hat is None:
        return loss
    own = torch.stack([p_hat[c].detach() for c in y.tolist()])
    return loss + lam * squared_error(h, own)


def local_training(
    client: PartedClient, own: Params, batches: list[list[int]], rule: Rule, p_hat: Tensor | None, lam: float
) -> Params:
    """Body and head of a client after a round.

    Args:
        client: Client i, for its forward and its data.
        own: Body and head before.
        batches: The batches of all epochs.
        rule: The optimiser.
        p_hat: The global prototypes it was sent; None if there are none.
        lam: Lambda.

    Returns:
        Body and head afterwards.
    """
    omega = trainable(own)
    v: Params | None = None
    for batch in batches:
        x, y = drawn(client.x, client.y, batch)
        omega, v = descend(rule, omega, gradient(local_loss(client, omega, x, y, p_hat, lam), omega), v)
    return copied(omega)


def fedtgp(
    clients: list[PartedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    initial: Params,
    server_learning_rate: float,
    server_epochs: int,
    order: Order,
    lam: float = 10.0,
    tau: float = 100.0,
    server_batch: int = 10,
    gap: Gap = "paper",
) -> FedTGPRun:
    """FedTGP written out.

    Args:
        clients: All N clients, with representations of one size d.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of the clients.
        initial: The trainable vectors and F before round 1, named as in `tgp`.
        server_learning_rate: The server's; it has neither momentum nor weight decay nor clipping.
        server_epochs: How often the server goes through the uploads of a round.
        order: The order of the uploads, by round, epoch and their number.
        lam: Lambda, the weight of the distance to the prototypes.
        tau: The largest margin.
        server_batch: How many class means make a batch.
        gap: Whose margin: the paper's or the release's.

    Returns:
        The prototypes, the uploads and margins of every round, and the networks of the clients.
    """
    theta = copied(initial)
    held = [copied(part(client.params, "body", "head")) for client in clients]
    P_hat: Tensor | None = None
    run = FedTGPRun([], [], [], [], held)
    for t, cohort in enumerate(cohorts, start=1):
        P: dict[int, dict[int, Tensor]] = {}
        for i in selected(cohort):
            held[i] = local_training(clients[i], held[i], batches(t, i, 0), rule, P_hat, lam)
            P[i] = class_means(clients[i].body(part(held[i], "body"), clients[i].x), clients[i].y)
        uploads = [(P[i][c], c) for i in P for c in P[i]]
        delta: float | None = None
        if uploads:
            delta = margin(uploads, tau, gap)
            orders = [order(t, epoch, len(uploads)) for epoch in range(server_epochs)]
            theta = server_training(theta, uploads, delta, server_learning_rate, orders, server_batch)
            P_hat = tgp(theta)
        run.params.append(theta)
        run.prototypes.append(tgp(theta))
        run.uploads.append(P)
        run.margins.append(delta)
    return run
