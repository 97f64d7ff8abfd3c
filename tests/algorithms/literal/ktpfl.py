"""KT-pFL, written out.

* In round 0 every client, also one that is never selected afterwards, sends what its initial model predicts.
* A row of coefficients changes in the rounds in which its client is selected, when all of them have sent.
* Where the coefficients of a row are all clipped to 0 it cannot be divided by its sum, and the equations end.
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
from .parted import drawn, kl_divergence, softmax


def soft_predictions(client: PartedClient, params: Params, public: Tensor, temperature: float) -> Tensor:
    """softmax(F_k(x) / temperature) for every public input."""
    return softmax(client.head(params, client.body(params, public)) / temperature).detach()


def mixture(c_k: Tensor, soft: list[Tensor]) -> Tensor:
    """The sum over l of c_kl * soft_l."""
    return torch.stack([c_kl * soft_l for c_kl, soft_l in zip(c_k, soft, strict=True)]).sum(dim=0)


def coefficients_after(k: int, c_k: Tensor, soft: list[Tensor], steps: int, eta: float, rho: float) -> Tensor:
    """Row k after steps down J = mean (soft_k - sum_l c_kl soft_l)^2 + rho * mean (c_kl - 1/N)^2.

    The first mean is over public inputs and classes, the second over l. After each step the row is clipped at 0 from
    below and divided by its sum.
    """
    n = len(soft)
    for _ in range(steps):
        missing = soft[k] - mixture(c_k, soft)
        row = []
        for soft_l, c_kl in zip(soft, c_k.tolist(), strict=True):
            # dJ/dc_kl
            slope = (-2 * missing * soft_l).sum().item() / missing.numel() + rho * 2 * (c_kl - 1 / n) / n
            row.append(max(0.0, c_kl - eta * slope))
        if sum(row) == 0:
            raise ValueError(f"all coefficients of client {k} were clipped to 0")
        c_k = torch.tensor([c / sum(row) for c in row], dtype=torch.float64)
    return c_k


def ktpfl(
    clients: list[PartedClient],
    public: Tensor,
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    steps: int,
    eta: float,
    rho: float,
    temperature: float = 10.0,
    public_rule: Rule | None = None,
) -> tuple[Params, list[Params]]:
    """KT-pFL: every client learns from a mixture, of its own, of what all predict on public inputs.

    Args:
        clients: All N clients.
        public: The P public inputs.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, which are positions in the public inputs, and of phase 1, in the own data.
        rule: The optimiser of phase 1.
        steps: How many gradient steps a row of coefficients takes in a round.
        eta: The size of those steps.
        rho: The weight of the pull towards 1/N.
        temperature: What logits are divided by, of those who teach and of those who learn.
        public_rule: The optimiser of phase 0; that of phase 1 if there is none.

    Returns:
        "coefficients" of [N, N] and "soft" of [N, P, classes], the latest soft predictions; and what every client
        holds.
    """
    rule_public = rule if public_rule is None else public_rule
    n = len(clients)
    c = [torch.full((n,), 1 / n, dtype=torch.float64) for _ in clients]
    # Round 0
    soft = [soft_predictions(client, copied(client.params), public, temperature) for client in clients]
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Tensor] = {}
        for k in sorted(selected(cohort)):
            client = clients[k]
            target = mixture(c[k], soft)
            omega_k = trainable(part(client.params, "body", "head"))
            v: Params | None = None
            for batch in batches(t, k, 0):
                positions = torch.tensor(batch, dtype=torch.long)
                z = client.head(omega_k, client.body(omega_k, public[positions]))
                # KL(target || softmax(F_k(x_pub) / temperature))
                loss = kl_divergence(target[positions], z / temperature)
                omega_k, v = descend(rule_public, omega_k, gradient(loss, omega_k), v)
            v = None
            for batch in batches(t, k, 1):
                x, y = drawn(client.x, client.y, batch)
                loss = cross_entropy(client.head(omega_k, client.body(omega_k, x)), y)
                omega_k, v = descend(rule, omega_k, gradient(loss, omega_k), v)
            client.params = {**client.params, **copied(omega_k)}
            uploads[k] = soft_predictions(client, omega_k, public, temperature)
        for k, soft_k in uploads.items():
            soft[k] = soft_k
        for k in uploads:
            c[k] = coefficients_after(k, c[k], soft, steps, eta, rho)
    return {"coefficients": torch.stack(c), "soft": torch.stack(soft)}, [copied(client.params) for client in clients]
