"""Models that cannot take part, with a word of what must be said of them; and odd ones that can."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

CLASSES = 3
DRAWS = np.random.default_rng()
"""A generator that Potluck knows nothing of."""


def net(outputs: int = CLASSES, width: int = 5) -> nn.Module:
    """A model for rows of six numbers."""
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, outputs))


def picture_net() -> nn.Module:
    """A model for images of 6x6."""
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.Tanh(), nn.Linear(5, CLASSES))


class Made(nn.Module):
    """Two layers, and whatever is done with them."""

    def __init__(self, act: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.a, self.b, self.act = nn.Linear(6, 5), nn.Linear(5, CLASSES), act
        self.calls, self.last, self.kept = 0, 0.0, None

    def forward(self, x: Tensor) -> Any:
        """Whatever it does."""
        return self.act(self, x)


def _of(act: Callable[[Any, Tensor], Any]) -> Callable[[], nn.Module]:
    return lambda: Made(act)


def _counts(model: Any, x: Tensor) -> Any:
    model.calls += 1
    return model.b(model.a(x) * model.calls)


def _remembers(model: Any, x: Tensor) -> Any:
    model.last = float(x.mean()) + 0.5 * model.last
    return model.b(model.a(x) + model.last)


def _accumulates(model: Any, x: Tensor) -> Any:
    model.kept = model.a(x).detach().mean() + (0 if model.kept is None else model.kept)
    return model.b(model.a(x) + model.kept)


def _keeps(model: Any, x: Tensor) -> Any:
    model.kept = model.a(x)
    return model.b(model.kept)


def _in_training(act: Callable[[Tensor], Tensor]) -> Callable[[Any, Tensor], Any]:
    def forward(model: Any, x: Tensor) -> Any:
        h = model.a(x)
        return model.b(act(h) if model.training else h)

    return forward


def _raise(_: Tensor) -> Tensor:
    raise RuntimeError("not yet")


def _frozen() -> nn.Module:
    made = net()
    made.get_submodule("0").requires_grad_(False)
    return made


def _tied() -> nn.Module:
    made = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    made[2].weight = made[0].weight
    return made


MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "None": (lambda: None, "nn.Module"),
    "text": (lambda: "cnn-1", "nn.Module"),
    "a class": (lambda: nn.Linear, "nn.Module"),
    "a function": (lambda: lambda x: x, "nn.Module"),
    "a list": (lambda: [nn.Linear(6, 3)], "nn.Module"),
    "a state": (lambda: net().state_dict(), "nn.Module"),
    "on the meta device": (lambda: net().to("meta"), "meta device"),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(5), nn.Linear(5, 3)), "lazy"),
    "frozen": (_frozen, "frozen"),
    "one output": (lambda: net(1), "one output"),
    "no output": (lambda: net(0), "output"),
    "fewer outputs than classes": (lambda: net(2), "labels count from 0"),
    "nothing": (nn.Sequential, "nn.Linear"),
    "no weights": (nn.Identity, "nn.Linear"),
    "weights tied": (_tied, "shares its weights"),
    "complex": (lambda: net().to(torch.complex64), "does not run"),
    "an output of None": (_of(lambda _m, _x: None), "one tensor"),
    "an output of a tuple": (_of(lambda m, x: (m.b(m.a(x)), x)), "one tensor"),
    "an output of a dict": (_of(lambda m, x: {"logits": m.b(m.a(x))}), "one tensor"),
    "an output of a number": (_of(lambda m, x: m.b(m.a(x)).sum()), "vector per input"),
    "an output of one row": (_of(lambda m, x: m.b(m.a(x))[:1]), "vector per input"),
    "an output of three dimensions": (_of(lambda m, x: m.b(m.a(x))[:, None]), "vector per input"),
    "a softmax at its end": (_of(lambda m, x: m.b(m.a(x)).softmax(1)), "something comes after"),
    "an argmax at its end": (_of(lambda m, x: m.b(m.a(x)).argmax(1)), "vector per input"),
    "NaN": (_of(lambda m, x: m.b(m.a(x) * math.nan)), "gives NaN"),
    "NaN in evaluation alone": (_of(lambda m, x: m.b(m.a(x) * (1 if m.training else math.nan))), "gives NaN"),
    "infinity": (_of(lambda m, x: m.b(m.a(x) / 0)), "gives NaN"),
    "detached": (_of(lambda m, x: m.b(m.a(x)).detach()), "no gradient"),
    "a detached body": (_of(lambda m, x: m.b(m.a(x).detach())), "no gradient"),
    "a way through NumPy": (_of(lambda m, x: m.b(torch.from_numpy(m.a(x).detach().numpy()))), "no gradient"),
    "NumPy without detach": (_of(lambda m, x: m.b(torch.from_numpy(m.a(x).numpy()))), "client 0"),
    "no_grad": (_of(torch.no_grad()(lambda m, x: m.b(m.a(x)))), "no gradient"),
    "inference_mode": (_of(torch.inference_mode()(lambda m, x: m.b(m.a(x)))), "client 0"),
    "counts its calls": (_of(_counts), "client 0"),
    "remembers its inputs": (_of(_remembers), "client 0"),
    "accumulates a tensor": (_of(_accumulates), "client 0"),
    "raises": (_of(lambda _m, _x: {"a": 1}["x"]), "does not run"),
    "raises in training": (_of(_in_training(_raise)), "in training"),
    "raises without a word": (_of(lambda _m, _x: [].pop()), "does not run"),
    "random numbers of NumPy": (_of(lambda m, x: m.b(m.a(x) * float(DRAWS.random()))), "client 0"),
    "random numbers of NumPy in training": (_of(_in_training(lambda h: h * float(DRAWS.random()))), "client 0"),
    "random numbers of PyTorch": (_of(_in_training(lambda h: h * torch.rand_like(h))), "cannot repeat"),
    "changes its input in place": (_of(lambda m, x: m.b(m.a(x.mul_(2)))), "client 0"),
    "changes what its gradient needs": (_of(lambda m, x: m.b(m.a(x).sigmoid().mul_(2))), "no gradient"),
    "two inputs": (lambda: nn.Bilinear(6, 6, 3), "must take one tensor"),
    "an embedding": (lambda: nn.Sequential(nn.Embedding(9, 5), nn.Flatten(), nn.Linear(30, 3)), "does not run"),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3)), "does not run"),
}
"""Some of these are refused for the way in which they are cut, before what is odd in them is seen: by the client."""


class Reads(nn.Module):
    """Takes the six numbers for three steps of two."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.head = nn.LSTM(2, 4, batch_first=True), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Any:
        """By the last state."""
        return self.head(self.reads(x.view(-1, 3, 2))[0][:, -1])


TAKEN_MODELS: dict[str, Callable[[], nn.Module]] = {
    "equal LSTMs are one architecture": Reads,
    "a model that keeps its last features": _of(_keeps),
    "body and head": lambda: nn.ModuleDict({"body": nn.Linear(6, 5), "head": nn.Linear(5, 3)}),
    "spectral norm": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5)), nn.Linear(5, 3)),
    "dropout": lambda: nn.Sequential(nn.Linear(6, 5), nn.Dropout(), nn.Linear(5, 3)),
    "batch norm": lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
    "a model in float64": lambda: net().double(),
    "one layer": lambda: nn.Linear(6, CLASSES),
}
