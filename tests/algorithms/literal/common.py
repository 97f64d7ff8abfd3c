"""What the transcriptions share: the optimiser, the loss and the average, written out, in float64.

Where the papers leave a choice or contradict themselves, and all transcriptions choose alike:

* n is the sum of n_k over the selected clients, so that the weights of a round sum to 1. The papers print the sum over
  all clients, which would shrink the average whenever some client is not selected.
* Rounds are t = 1, ..., T with T = len(cohorts). Within a round, clients come in the order of their numbers.
* Momentum starts afresh for every client, round and phase. A round that selects nobody changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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


@dataclass
class PartedClient:
    """Client k with the parts of F_k apart; the names in ``params`` start with that of the part, "body." or "head."."""

    body: Forward  # (body's parameters; x) -> representations
    head: Forward  # (head's parameters; representations) -> logits
    params: Params
    x: Tensor
    y: Tensor
    holdout_x: Tensor | None = field(default=None, kw_only=True)
    holdout_y: Tensor | None = field(default=None, kw_only=True)

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """F_k(x) = head(body(x)). Either part is given its own parameters alone, under their full names."""
        return self.head(part(params, "head"), self.body(part(params, "body"), x))


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


def part(params: Params, *networks: str) -> Params:
    """The parameters of these networks, which are those whose names start with a network's name and a dot."""
    return {name: value for name, value in params.items() if name.split(".")[0] in networks}


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


def samples(client: LiteralClient | PartedClient, batch: list[int]) -> tuple[Tensor, Tensor]:
    """(x, y) in D_k: the batch at these positions."""
    positions = torch.tensor(batch, dtype=torch.long)
    return client.x[positions], client.y[positions]


def selected(cohort: list[int]) -> list[int]:
    """S^t, which is a set: nobody is in it twice, and the order is that of the clients' numbers."""
    if len(set(cohort)) != len(cohort):
        raise ValueError(f"a client is selected twice in {cohort}")
    return sorted(cohort)
