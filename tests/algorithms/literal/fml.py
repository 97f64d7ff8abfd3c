"""FML (federated mutual learning), written out."""

from __future__ import annotations

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


def fml(
    clients: list[PartedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    small_body: Forward,
    small_head: Forward,
    small: Params,
    alpha: float,
    beta: float,
    small_rule: Rule | None = None,
) -> tuple[Params, list[Params]]:
    """FML: every client's model and the small one that goes around teach each other.

    Args:
        clients: All N clients.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of F_k.
        small_body: The body of the small model.
        small_head: The head of the small model.
        small: The small model before round 1.
        alpha: The weight of the labels in the loss of F_k.
        beta: The weight of the labels in the loss of the small model.
        small_rule: The optimiser of the small model; that of F_k if there is none.

    Returns:
        The small model after the last round, and what every client holds: F_k and the small model it trained.
    """
    rule_small = rule if small_rule is None else small_rule
    small = copied(small)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in sorted(selected(cohort)):
            client = clients[k]
            own_k = trainable(part(client.params, "body", "head"))
            small_k = trainable(small)
            v_own: Params | None = None
            v_small: Params | None = None
            for batch in batches(t, k, 0):
                x, y = drawn(client.x, client.y, batch)
                z_own = client.head(own_k, client.body(own_k, x))
                z_small = small_head(small_k, small_body(small_k, x))
                # L_own = alpha * CE + (1 - alpha) * KL(p_small || p_own)
                loss_own = alpha * cross_entropy(z_own, y)
                loss_own = loss_own + (1 - alpha) * kl_divergence(softmax(z_small).detach(), z_own)
                # L_small = beta * CE + (1 - beta) * KL(p_own || p_small)
                loss_small = beta * cross_entropy(z_small, y)
                loss_small = loss_small + (1 - beta) * kl_divergence(softmax(z_own).detach(), z_small)
                g_own = gradient(loss_own, own_k)
                g_small = gradient(loss_small, small_k)
                own_k, v_own = descend(rule, own_k, g_own, v_own)
                small_k, v_small = descend(rule_small, small_k, g_small, v_small)
            client.params = {**client.params, **copied(own_k), **copied(small_k)}
            uploads[k] = copied(small_k)
        if uploads:
            # 1/K times the sum over k in S of small_k
            small = unweighted(uploads)
    return small, [copied(client.params) for client in clients]
