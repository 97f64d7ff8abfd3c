"""KT-pFL, written out.

Source: J. Zhang, S. Guo, X. Ma, H. Wang, W. Xu, F. Wu, "Parameterized Knowledge Transfer for Personalized Federated
Learning", NeurIPS 2021, arXiv 2111.02862. Of the paper only the abstract and the introduction could be had, so that
what is transcribed is the authors' code, repository cugzj/KT-pFL, src/engine_kt_pfl.py: `get_models_logits` for the
coefficients, `KT_pFL.collaborative_training` for the order of a round, `predict` for soft predictions. It agrees with
the abstract: each client learns from a linear combination of all soft predictions, with a matrix of coefficients that
is updated in turn with the models. Others who compare paper and code say that the paper's objective of the coefficients
has a KL divergence where the code has a mean squared error. No equation number could be checked, so none is given.

Where the code is departed from, or silent:

* Order within a round. The code gathers soft predictions, updates the coefficients, then clients distil, then they
  train on own data, all after one epoch of training. Here, by the phases given, clients distil (phase 0), train on own
  data (phase 1) and send soft predictions, then the coefficients are updated: the same order, but for the beginning.
  No coefficient changes before the first distillation, which mixes the soft predictions of the models as they were
  before round 1, all weighted 1/N. There is no training before.
* All clients distil towards what the server had when the round began.
* Steps. The code takes one step for a row, of a size found from the mean of the absolute gradient. Here a row takes
  ``steps`` steps of size eta, each over all public inputs.
* Rows. The code applies a softmax to 5 times the row after its step; a comment in it says that this is not right, and
  that it should be a normalisation. Here it is one: a row is clipped at 0 and divided by its sum, so that a mixture
  remains a distribution. A row of which nothing is left cannot be divided.
* Selection. Everybody takes part in the code. Here the selected send new soft predictions, those of the others stay as
  they were last sent, and only the rows of the selected change, after all new predictions have come in.
* Temperature. For those who teach and those who learn, without a factor T^2, as in the code.
* KL of distillation is a mean over the batch and a sum over classes. (The code divides by the number of classes too.)
* The public inputs are all P, in each round. (The code draws N_alignment of them anew.)
* Epochs on own data are those of the batches given. (In the code they rise by one a round, from 1 to a maximum.)
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
from .parted import drawn, kl_divergence, softmax, squared_error


def soft_predictions(client: PartedClient, params: Params, public: Tensor, temperature: float) -> Tensor:
    """s(w_n): the softmax of logits / temperature, for every public input."""
    return softmax(client.forward(part(params, "body", "head"), public) / temperature).detach()


def mixture(c_k: Tensor, soft: list[Tensor]) -> Tensor:
    """sum over m of c_km * s(w_m), the personalised soft prediction of client k."""
    total = torch.zeros_like(soft[0])
    for c_km, s_m in zip(c_k, soft, strict=True):
        total = total + c_km * s_m
    return total


def coefficients_after(k: int, c_k: Tensor, soft: list[Tensor], steps: int, eta: float, rho: float) -> Tensor:
    """Row k of the coefficients after the server's update.

    Args:
        k: The client of the row.
        c_k: The row.
        soft: The latest soft predictions of all clients.
        steps: How many gradient steps the row takes.
        eta: Their size.
        rho: The weight of the pull towards 1/N.

    Returns:
        The row afterwards.
    """
    N = len(soft)
    c_k = c_k.detach().clone()
    for _ in range(steps):
        c_k = c_k.requires_grad_()
        distance = squared_error(soft[k], mixture(c_k, soft))  # get_models_logits: loss
        penalty = squared_error(c_k, torch.full((N,), 1.0 / N, dtype=torch.float64))  # loss_penalty
        (g,) = torch.autograd.grad(distance + rho * penalty, [c_k])
        c_k = (c_k.detach() - eta * g).clamp(min=0.0)
        if float(c_k.sum()) == 0.0:
            raise ValueError(f"all coefficients of client {k} were clipped to 0")
        c_k = c_k / c_k.sum()
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
    """KT-pFL written out.

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
    N = len(clients)
    held = [copied(part(client.params, "body", "head")) for client in clients]
    c = [torch.full((N,), 1.0 / N, dtype=torch.float64) for _ in clients]
    soft = [soft_predictions(client, held[k], public, temperature) for k, client in enumerate(clients)]
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Tensor] = {}
        for k in selected(cohort):
            client = clients[k]
            teacher = mixture(c[k], soft)
            w = trainable(held[k])
            v: Params | None = None
            for batch in batches(t, k, 0):
                positions = torch.tensor(batch, dtype=torch.long)
                z = client.forward(w, public[positions])
                loss = kl_divergence(teacher[positions], z / temperature)
                w, v = descend(public_rule or rule, w, gradient(loss, w), v)
            v = None
            for batch in batches(t, k, 1):
                x, y = drawn(client.x, client.y, batch)
                loss = cross_entropy(client.forward(w, x), y)
                w, v = descend(rule, w, gradient(loss, w), v)
            held[k] = copied(w)
            uploads[k] = soft_predictions(client, held[k], public, temperature)
        for k, s_k in uploads.items():
            soft[k] = s_k
        for k in uploads:
            c[k] = coefficients_after(k, c[k], soft, steps, eta, rho)
    return {"coefficients": torch.stack(c), "soft": torch.stack(soft)}, held
