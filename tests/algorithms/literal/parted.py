"""What the transcriptions of FML, FedKD, FedAPEN, FD, FedProto, FedTGP and KT-pFL share, in float64.

Client k has a model F_k of two parts: the body gives representations, the head takes representations and gives logits.
The names of parameters begin with the network they belong to: "body.", "head.", and "small_body.", "small_head." for
the small model that some of the methods pass around. What all seven choose alike:

* The body and the head are one group of parameters for the optimiser, those of the small model another.
* Where two models are trained at once, both gradients are taken where both models stood before the step, and what one
  model learns from the other is a constant in its own loss.
* Clients take part in ascending order.
* A client holds what it trained when it was last selected, and what it was given until then.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .common import Params, aggregate

Order = Callable[[int, int, int], list[int]]
"""(round, epoch, n) -> the order in which the server takes the n things it was sent; epochs count from 0."""


def drawn(x: Tensor, y: Tensor, batch: list[int]) -> tuple[Tensor, Tensor]:
    """The batch at these positions."""
    positions = torch.tensor(batch, dtype=torch.long)
    return x[positions], y[positions]


def average(values: list[Tensor]) -> Tensor:
    """1/n times the sum of n tensors."""
    return torch.stack(values).sum(dim=0) / len(values)


def unweighted(uploads: dict[int, Params]) -> Params:
    """The mean of what the clients uploaded, in which everyone counts alike."""
    return aggregate(uploads, dict.fromkeys(uploads, 1))


def softmax(z: Tensor) -> Tensor:
    """exp(z_c) / sum over c' of exp(z_c'), for each row."""
    return torch.exp(log_softmax(z))


def log_softmax(z: Tensor) -> Tensor:
    """z_c - log(sum over c' of exp(z_c')), for each row."""
    return z - torch.logsumexp(z, dim=1, keepdim=True)


def kl_divergence(p: Tensor, z: Tensor) -> Tensor:
    """KL(p || q) with q = softmax(z): the mean over the batch of sum_c p_c * (log p_c - log q_c); p is a constant."""
    total = torch.zeros((), dtype=torch.float64)
    for p_i, log_q_i in zip(p.detach(), log_softmax(z), strict=True):
        total = total + (torch.xlogy(p_i, p_i) - p_i * log_q_i).sum()  # 0 * log 0 = 0
    return total / len(p)


def squared_error(a: Tensor, b: Tensor) -> Tensor:
    """The mean over all entries, of all samples and dimensions, of (a - b)^2."""
    return ((a - b) ** 2).sum() / a.numel()


def class_means(values: Tensor, y: Tensor) -> dict[int, Tensor]:
    """For each class that occurs in y, in ascending order, the mean of the rows of ``values`` that are of it."""
    means = {}
    for s in sorted(set(y.tolist())):
        means[s] = average([value for value, label in zip(values.detach(), y.tolist(), strict=True) if label == s])
    return means


def class_counts(y: Tensor) -> dict[int, int]:
    """For each class that occurs in y, how often it does."""
    return {s: y.tolist().count(s) for s in sorted(set(y.tolist()))}
