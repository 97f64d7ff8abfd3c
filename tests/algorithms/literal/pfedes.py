"""pFedES written out equation by equation, to lay beside the paper.

"Equation" means an equation of the AAAI paper of pFedES, "Algorithm 1" the one its arXiv version prints. The symbols
are theirs: omega_k are the parameters of client k's model F_k, theta those of the shared extractor G, eta a learning
rate, mu the weight of the loss on the enhanced data, t a round, S^t the clients selected for it, n_k = |D_k|.

An equation such as (7) has omega^{t-1} on its right for every batch. It is read as the usual loop: the first batch of a
round starts from omega^{t-1}, every later one from what the batch before it left, and omega^t is the last result. What
is frozen, theta^{t-1} in (4) and omega^t in (8), is the same for every batch. (Algorithm 1 counts rounds to T - 1.)
"""

from __future__ import annotations

from .common import (
    Batches,
    Forward,
    LiteralClient,
    Params,
    Rule,
    aggregate,
    copied,
    cross_entropy,
    descend,
    gradient,
    samples,
    selected,
    trainable,
)


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
