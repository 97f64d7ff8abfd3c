"""FedKD, written out.

The mentor is F_k, which stays with its client; the mentee is the small model, whose updates go to the server; W_h, also
the client's own, takes the mentee's representations to where the mentor's are.

* In the mentor's loss all that comes from the mentee is a constant, W_h with it, and the other way about. What each
  adds to the divisor CE_t + CE_s is not: it is part of the derivative of its own loss.
* A client's update is relative to the mentee it received, which was truncated; the server's own is never truncated.
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
from .parted import drawn, kl_divergence, softmax, squared_error, unweighted


def energy_threshold(t: int, rounds: int, t_start: float, t_end: float) -> float:
    """T(t) = T_start + (t / R) * (T_end - T_start), for t = 1, ..., R."""
    return t_start + (t / rounds) * (t_end - t_start)


def truncated(value: Tensor, threshold: float) -> Tensor:
    """What arrives when ``value`` is sent: its largest singular values with a share ``threshold`` of the energy.

    The rank is the smallest that reaches the share, and at least 1. A tensor of one dimension or none is sent as it is,
    and so is one whose two factors, U * S and V, would be no fewer numbers than itself.
    """
    if value.dim() < 2:
        return value.detach().clone()
    matrix = value.detach().reshape(value.shape[0], -1)
    rows, columns = matrix.shape
    u, sigma, v = torch.linalg.svd(matrix, full_matrices=False)
    energy = [float(s) ** 2 for s in sigma]
    rank = 1
    while rank < len(energy) and sum(energy[:rank]) < threshold * sum(energy):
        rank += 1
    if rank * (rows + columns) >= rows * columns:
        return value.detach().clone()
    left = u[:, :rank] * sigma[:rank]
    product: Tensor = left @ v[:rank]
    return product.reshape(value.shape)


def sent(params: Params, threshold: float) -> Params:
    """What arrives of each tensor."""
    return {name: truncated(value, threshold) for name, value in params.items()}


def fedkd(
    clients: list[PartedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    small_body: Forward,
    small_head: Forward,
    small: Params,
    small_rule: Rule | None = None,
    t_start: float = 0.95,
    t_end: float = 0.98,
    rounds: int | None = None,
) -> tuple[Params, list[Params]]:
    """FedKD: mentor and mentee distil into each other, by as much as both can be trusted.

    Args:
        clients: All N clients; each holds "projection.weight", the matrix W_h of [mentor's, mentee's] dimensions.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of the mentor.
        small_body: The body of the mentee.
        small_head: The head of the mentee.
        small: The server's mentee before round 1.
        small_rule: The optimiser of the mentee and W_h; that of the mentor if there is none.
        t_start: The share of the energy that would be kept in a round 0.
        t_end: The share of the energy that is kept in the last round.
        rounds: R; as many as there are cohorts if it is not given.

    Returns:
        The server's mentee after the last round, and what every client holds: mentor, mentee and W_h as trained.
    """
    rule_small = rule if small_rule is None else small_rule
    total = len(cohorts) if rounds is None else rounds
    small = copied(small)
    for t, cohort in enumerate(cohorts, start=1):
        threshold = energy_threshold(t, total, t_start, t_end)
        received = sent(small, threshold)
        uploads: dict[int, Params] = {}
        for k in sorted(selected(cohort)):
            client = clients[k]
            mentor = trainable(part(client.params, "body", "head"))
            mentee = trainable({**received, "projection.weight": client.params["projection.weight"]})
            v_mentor: Params | None = None
            v_mentee: Params | None = None
            for batch in batches(t, k, 0):
                x, y = drawn(client.x, client.y, batch)
                rep_t = client.body(mentor, x)
                rep_s = small_body(mentee, x)
                z_t = client.head(mentor, rep_t)
                z_s = small_head(mentee, rep_s)
                mapped = rep_s @ mentee["projection.weight"].T  # W_h rep_s
                ce_t = cross_entropy(z_t, y)
                ce_s = cross_entropy(z_s, y)
                # L_mentor = CE_t + (KL(p_s || p_t) + MSE) / (CE_t + CE_s)
                learnt = kl_divergence(softmax(z_s).detach(), z_t) + squared_error(rep_t, mapped.detach())
                loss_mentor = ce_t + learnt / (ce_t + ce_s.detach())
                # L_mentee = CE_s + (KL(p_t || p_s) + MSE) / (CE_t + CE_s)
                learnt = kl_divergence(softmax(z_t).detach(), z_s) + squared_error(rep_t.detach(), mapped)
                loss_mentee = ce_s + learnt / (ce_t.detach() + ce_s)
                g_mentor = gradient(loss_mentor, mentor)
                g_mentee = gradient(loss_mentee, mentee)
                mentor, v_mentor = descend(rule, mentor, g_mentor, v_mentor)
                mentee, v_mentee = descend(rule_small, mentee, g_mentee, v_mentee)
            client.params = {**client.params, **copied(mentor), **copied(mentee)}
            delta = {name: mentee[name].detach() - received[name] for name in received}
            uploads[k] = sent(delta, threshold)
        if uploads:
            # small <- small + 1/K times the sum over k in S of Delta_k
            update = unweighted(uploads)
            small = {name: small[name] + update[name] for name in small}
    return small, [copied(client.params) for client in clients]
