"""Models in two parts that are small enough to work out by hand.

A number x has the representation x * w, with w of one or more dimensions, and the logits (z, 0) with z = v . x * w.
Let s = sigmoid(z). For a sample of class 0 the derivative of the loss by z is s - 1, for one of class 1 it is s, and
that of KL(p || softmax) is s - p_0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .literal import Batches, Params, PartedClient


def body(params: Params, x: Tensor) -> Tensor:
    return x[:, None] * params["body.w"]


def head(params: Params, rep: Tensor) -> Tensor:
    z = rep @ params["head.v"]
    return torch.stack([z, torch.zeros_like(z)], dim=1)


def small_body(params: Params, x: Tensor) -> Tensor:
    return x[:, None] * params["small_body.w"]


def small_head(params: Params, rep: Tensor) -> Tensor:
    z = rep @ params["small_head.v"]
    return torch.stack([z, torch.zeros_like(z)], dim=1)


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def small(w: float, v: float) -> Params:
    return {"small_body.w": vector(w), "small_head.v": vector(v)}


def make(w: list[float], v: list[float], xs: list[float], ys: list[int] | None = None) -> PartedClient:
    """A client, whose samples are all of class 0 unless it is said otherwise."""
    labels = [0] * len(xs) if ys is None else ys
    return PartedClient(body, head, {"body.w": vector(*w), "head.v": vector(*v)}, vector(*xs), torch.tensor(labels))


def whole(clients: list[PartedClient]) -> Batches:
    """In every phase one batch: all that a client has."""
    return lambda _round, k, _phase: [list(range(len(clients[k].y)))]


def first(count: int) -> Batches:
    """In every phase ``count`` batches, each the first sample alone."""
    return lambda _round, _client, _phase: [[0]] * count


def none(_round: int, _client: int, _phase: int) -> list[list[int]]:
    """No batches: nothing is trained."""
    return []


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def ce(z: float) -> float:
    """The cross-entropy of the logits (z, 0) and class 0."""
    return math.log(1 + math.exp(-z))


def kl(p: float, q: float) -> float:
    """KL of (p, 1 - p) and (q, 1 - q)."""
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def stepped(w: float, v: float, x: float, dz: float, learning_rate: float = 1.0) -> tuple[float, float]:
    """(w, v) after one step, where the loss depends on them through z = v * w * x and has the derivative dz by it."""
    return w - learning_rate * dz * v * x, v - learning_rate * dz * w * x


def derivative(f: Callable[[float], float], at: float) -> float:
    """By central differences."""
    h = 1e-5
    return (f(at + h) - f(at - h)) / (2 * h)
