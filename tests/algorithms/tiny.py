"""Models small enough to work out by hand, for the tests of the transcriptions.

The model of :func:`make` has one number w and gives the logits (w * x, 0). That of :func:`parted` has three: its body
gives the representation b * x, its head of representation r the logits (h * r + c, 0). For a sample of class 0 with the
first logit z the loss is log(1 + exp(-z)), whose derivative by z is -(1 - sigmoid(z)); for one of class 1 it is
log(1 + exp(z)), with the derivative sigmoid(z).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .literal import LiteralClient, Params, PartedClient


def number(name: str, value: float) -> Params:
    return {name: torch.tensor(value, dtype=torch.float64)}


def numbers(**values: float) -> Params:
    """body_b=1 is the number 1 of the name body.b."""
    return {name.replace("_", "."): torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def line(params: Params, x: Tensor) -> Tensor:
    return torch.stack([params["w"] * x, torch.zeros_like(x)], dim=1)


def body(params: Params, x: Tensor) -> Tensor:
    (b,) = params.values()  # a body is given the parameters of no other network
    return (b * x)[:, None]


def head(params: Params, r: Tensor) -> Tensor:
    assert set(params) == {"head.h", "head.c"}
    z = params["head.h"] * r[:, 0] + params["head.c"]
    return torch.stack([z, torch.zeros_like(z)], dim=1)


def make(w: float, *xs: float) -> LiteralClient:
    """A client whose samples are all of class 0."""
    x = torch.tensor(xs, dtype=torch.float64)
    return LiteralClient(line, number("w", w), x, torch.zeros(len(xs), dtype=torch.long))


def parted(b: float, h: float, c: float, *xs: float, y: list[int] | None = None) -> PartedClient:
    """A client whose samples are all of class 0 unless told."""
    x = torch.tensor(xs, dtype=torch.float64)
    labels = torch.zeros(len(xs), dtype=torch.long) if y is None else torch.tensor(y)
    return PartedClient(body, head, numbers(body_b=b, head_h=h, head_c=c), x, labels)


def one_by_one(count: int) -> Callable[[int, int, int], list[list[int]]]:
    """In every phase ``count`` batches, each the first sample alone."""
    return lambda _round, _client, _phase: [[0]] * count


def miss(z: float) -> float:
    """1 - sigmoid(z)."""
    return 1 / (1 + math.exp(z))


def values(params: Params) -> dict[str, float]:
    return {name: value.item() for name, value in params.items()}
