"""FedAvg and pFedES written out equation by equation: slow, in float64, to lay beside the papers.

"Equation" means an equation of the AAAI paper of pFedES, "Algorithm 1" the one its arXiv version prints. The symbols
are theirs: omega_k are the parameters of client k's model F_k, theta those of the shared extractor G, eta a learning
rate, mu the weight of the loss on the enhanced data, t a round, S^t the clients selected for it, n_k = |D_k|.

Where the papers leave a choice or contradict themselves:

* n is the sum of n_k over the selected clients, so that the weights of a round sum to 1. The papers print the sum over
  all clients, which would shrink the average whenever some client is not selected.
* Rounds are t = 1, ..., T with T = len(cohorts). (Algorithm 1 counts to T - 1.)
* An equation such as (7) has omega^{t-1} on its right for every batch. It is read as the usual loop: the first batch of
  a round starts from omega^{t-1}, every later one from what the batch before it left, and omega^t is the last result.
  What is frozen, theta^{t-1} in (4) and omega^t in (8), is the same for every batch.
* Momentum starts afresh for every client, round and phase. A round that selects nobody changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Params = dict[str, Tensor]
Forward = Callable[[Params, Tensor], Tensor]
Batches = Callable[[int, int, int], list[list[int]]]
"""(round, client, phase) -> the batches, as positions in the client's data, of all epochs of that phase in order."""


@dataclass
class LiteralClient:
    """Client k. Training puts a new dictionary of new tensors into ``params`` and leaves those it was given alone."""

    forward: Forward  # F_k(omega_k; x) -> logits
    params: Params  # omega_k
    x: Tensor  # D_k
    y: Tensor


@dataclass(frozen=True)
class Rule:
    """The local optimiser: the papers' gradient descent, with what the released code adds to it."""

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None


def copied(params: Params) -> Params:
    """New tensors of the same values, of which no gradient is taken: a model sent, received, kept or frozen."""
    for name, value in params.items():
        if value.dtype != torch.float64:
            raise TypeError(f"{name} is {value.dtype}; everything here is computed in float64")
    return {name: value.detach().clone() for name, value in params.items()}


def trainable(params: Params) -> Params:
    """New tensors of the same values, of which gradients can be taken."""
    return {name: value.requires_grad_() for name, value in copied(params).items()}


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """The loss l of equations 5 and 9: the mean over the batch of log(sum_c exp(z_c)) - z_y."""
    losses = []
    for z, label in zip(logits, y.tolist(), strict=True):
        losses.append(torch.logsumexp(z, dim=0) - z[label])
    return sum(losses, torch.zeros((), dtype=torch.float64)) / len(losses)


def gradient(loss: Tensor, params: Params) -> Params:
    """The derivative of the loss by each tensor of ``params``; the graph stays for a second group of parameters."""
    return dict(zip(params, torch.autograd.grad(loss, list(params.values()), retain_graph=True), strict=True))


def descend(rule: Rule, params: Params, g: Params, v: Params | None) -> tuple[Params, Params]:
    """One step, omega <- omega - eta * v, for one group of parameters.

    Args:
        rule: The optimiser of the group.
        params: Where the group stands.
        g: The gradient there.
        v: The momentum buffer the step before left; None at the first step of a phase.

    Returns:
        Where the group stands afterwards, and the buffer for the next step.
    """
    if rule.clip_norm is not None:
        norm = sum(float((g[name] ** 2).sum()) for name in g) ** 0.5  # over all tensors of the group
        g = {name: g[name] * min(1.0, rule.clip_norm / (norm + 1e-6)) for name in g}
    g = {name: g[name] + rule.weight_decay * params[name].detach() for name in g}
    v = dict(g) if v is None else {name: rule.momentum * v[name] + g[name] for name in g}
    return trainable({name: params[name] - rule.learning_rate * v[name] for name in params}), v


def aggregate(uploads: dict[int, Params], n: dict[int, int]) -> Params:
    """Equation 11, and the same sum in FedAvg: sum over k in S^t of n_k / n times what client k uploaded."""
    total = sum(n[k] for k in uploads)
    names = list(next(iter(uploads.values())))
    average = {}
    for name in names:
        terms = [(n[k] / total) * uploads[k][name] for k in uploads]
        average[name] = torch.stack(terms).sum(dim=0)
    return average


def samples(client: LiteralClient, batch: list[int]) -> tuple[Tensor, Tensor]:
    """(x, y) in D_k: the batch at these positions."""
    positions = torch.tensor(batch, dtype=torch.long)
    return client.x[positions], client.y[positions]


def selected(cohort: list[int]) -> list[int]:
    """S^t, which is a set: nobody is in it twice."""
    if len(set(cohort)) != len(cohort):
        raise ValueError(f"a client is selected twice in {cohort}")
    return cohort


def fedavg(
    clients: list[LiteralClient], cohorts: list[list[int]], batches: Batches, rule: Rule, initial: Params
) -> tuple[Params, list[Params]]:
    """FedAvg, as the Preliminaries of the AAAI paper describe it.

    Args:
        clients: All N clients, of one architecture.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser.
        initial: The global model before round 1.

    Returns:
        The global model after the last round, and what every client holds: the model it trained when it was last
        selected, before the server averaged it, or the parameters it was given if it never was.
    """
    n = {k: len(client.y) for k, client in enumerate(clients)}
    omega = copied(initial)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]
            # "broadcasts the global model F(omega)": every selected client starts from the same one
            omega_k = trainable(omega)
            v: Params | None = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                # omega_k <- omega - eta * gradient of l(F(x_i; omega), y_i)
                loss = cross_entropy(client.forward(omega_k, x), y)
                omega_k, v = descend(rule, omega_k, gradient(loss, omega_k), v)
            client.params = copied(omega_k)
            uploads[k] = copied(omega_k)
        if uploads:
            # omega = sum over k in S of n_k / n times omega_k
            omega = aggregate(uploads, n)
    return omega, [copied(client.params) for client in clients]


def pfedes(
    clients: list[LiteralClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    extractor: Forward,
    theta: Params,
    mu: float,
    extractor_rule: Rule | None = None,
) -> tuple[Params, list[Params]]:
    """pFedES: Algorithm 1, equations 4 to 11.

    Args:
        clients: All N clients, each with a model of its own.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, which trains F_k, and of phase 1, which trains G.
        rule: The optimiser of F_k, with eta_omega.
        extractor: G(theta; x) -> the enhanced data, of the shape of x.
        theta: theta^0.
        mu: The weight of equation 6.
        extractor_rule: The optimiser of G, with eta_theta; that of F_k if there is none.

    Returns:
        theta after the last round, and omega_k of every client.
    """
    rule_theta = rule if extractor_rule is None else extractor_rule
    n = {k: len(client.y) for k, client in enumerate(clients)}
    theta = copied(theta)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]

            # Freeze extractor, train model: theta is theta^{t-1} for every batch.
            omega_k = trainable(client.params)
            v: Params | None = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                x_hat = extractor(theta, x)
                # (4)
                y_hat_1 = client.forward(omega_k, x_hat)
                y_hat_2 = client.forward(omega_k, x)
                # (5)
                loss_1 = cross_entropy(y_hat_1, y)
                loss_2 = cross_entropy(y_hat_2, y)
                # (6)
                loss_omega = mu * loss_1 + (1 - mu) * loss_2
                # (7)
                omega_k, v = descend(rule, omega_k, gradient(loss_omega, omega_k), v)
            client.params = copied(omega_k)

            # Freeze model, train extractor: omega_k is omega_k^t for every batch, theta_k starts from theta^{t-1}.
            frozen = copied(client.params)
            theta_k = trainable(theta)
            v = None
            for batch in batches(t, k, 1):
                x, y = samples(client, batch)
                x_hat = extractor(theta_k, x)
                # (8)
                y_hat = client.forward(frozen, x_hat)
                # (9)
                loss_theta = cross_entropy(y_hat, y)
                # (10)
                theta_k, v = descend(rule_theta, theta_k, gradient(loss_theta, theta_k), v)
            uploads[k] = copied(theta_k)
        if uploads:
            # (11)
            theta = aggregate(uploads, n)
    return theta, [copied(client.params) for client in clients]


def pfedes_simultaneous(
    clients: list[LiteralClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    extractor: Forward,
    theta: Params,
    mu: float,
    extractor_rule: Rule | None = None,
) -> tuple[Params, list[Params]]:
    """What "Motivation" in the AAAI paper argues against: G and F_k trained at once, by the loss of equation 6.

    Both gradients are taken where both models stood before the step. The two are separate groups: each has its own
    rule, its own momentum buffer, and is clipped by its own norm. There is phase 0 only.

    Args:
        clients: As for :func:`pfedes`.
        cohorts: As for :func:`pfedes`.
        batches: The batches of phase 0.
        rule: As for :func:`pfedes`.
        extractor: As for :func:`pfedes`.
        theta: As for :func:`pfedes`.
        mu: As for :func:`pfedes`.
        extractor_rule: As for :func:`pfedes`.

    Returns:
        As :func:`pfedes`.
    """
    rule_theta = rule if extractor_rule is None else extractor_rule
    n = {k: len(client.y) for k, client in enumerate(clients)}
    theta = copied(theta)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]
            omega_k = trainable(client.params)
            theta_k = trainable(theta)
            v_omega: Params | None = None
            v_theta: Params | None = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                x_hat = extractor(theta_k, x)
                # (4), now of theta_k too
                y_hat_1 = client.forward(omega_k, x_hat)
                y_hat_2 = client.forward(omega_k, x)
                # (5)
                loss_1 = cross_entropy(y_hat_1, y)
                loss_2 = cross_entropy(y_hat_2, y)
                # (6)
                loss = mu * loss_1 + (1 - mu) * loss_2
                # (7) and (10), both by the gradient of that one loss
                g_omega = gradient(loss, omega_k)
                g_theta = gradient(loss, theta_k)
                omega_k, v_omega = descend(rule, omega_k, g_omega, v_omega)
                theta_k, v_theta = descend(rule_theta, theta_k, g_theta, v_theta)
            client.params = copied(omega_k)
            uploads[k] = copied(theta_k)
        if uploads:
            # (11)
            theta = aggregate(uploads, n)
    return theta, [copied(client.params) for client in clients]
