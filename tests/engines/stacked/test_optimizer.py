"""Stacked optimisers against those of PyTorch, client by client."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from potluck.contract import Group, Task
from potluck.engines.optimizer import Rule
from potluck.engines.stacked.optimizer import Optimizer
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Template
from potluck.training import Training

CLIENTS, STEPS = 3, 5
SHAPES = {"a.weight": (4, 2), "a.scale": (), "b.weight": (3,)}
GROUPS = {
    "run's own": [Group(("a",)), Group(("b",))],
    "their own": [
        Group(("a",), learning_rate=0.3, momentum=0.0, weight_decay=0.2, clip_norm=0.5),
        Group(("b",), learning_rate=0.01, momentum=0.5, weight_decay=0.0, clip_norm=math.inf),
    ],
    "projected": [Group(("a",), project=lambda w: w.clamp(0, 1)), Group(("b",), project=lambda w: w / w.norm())],
}
TRAININGS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "plain sgd": {"momentum": 0.0, "weight_decay": 0.0, "clip_norm": None},
    "clipped": {"clip_norm": 0.1},
    "adam": {"optimizer": "adam", "learning_rate": 0.01, "betas": (0.5, 0.99), "weight_decay": 0.1},
    "adam without decay": {"optimizer": "adam", "weight_decay": 0.0, "clip_norm": 2.0},
}
ENDS = (STEPS, 2, 4)
"""How many steps each client makes."""


class Loose(nn.Module):
    """Parameters that nobody computes with, and a buffer behind them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        for path, shape in SHAPES.items():
            if path.startswith(name):
                self.register_parameter(path.split(".")[1], nn.Parameter(torch.zeros(shape, dtype=torch.float64)))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def alone(
    weights: dict[str, Tensor], slopes: list[dict[str, Tensor]], groups: list[Group], training: Training
) -> dict[str, Tensor]:
    """The steps of one client with PyTorch's own optimiser."""
    parameters = {path: torch.nn.Parameter(tensor.clone()) for path, tensor in weights.items()}
    rules = [Rule.of(group, training) for group in groups]
    members = [[parameters[path] for path in SHAPES if path.startswith(group.networks)] for group in groups]
    entries = [
        {"params": own, "lr": rule.learning_rate / 2, "weight_decay": rule.weight_decay}
        | ({} if training.optimizer == "adam" else {"momentum": rule.momentum})
        for own, rule in zip(members, rules, strict=True)
    ]
    kind: Any = torch.optim.Adam if training.optimizer == "adam" else torch.optim.SGD
    optimizer = kind(entries, **({"betas": training.betas} if training.optimizer == "adam" else {}))
    for slope in slopes:
        for path, parameter in parameters.items():
            parameter.grad = slope[path].clone()
        for own, rule in zip(members, rules, strict=True):
            if rule.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(own, rule.clip_norm)
        optimizer.step()
        for own, rule in zip(members, rules, strict=True):
            for parameter in own:
                if rule.project is not None:
                    parameter.data = rule.project(parameter.data)
    return {path: parameter.detach() for path, parameter in parameters.items()}


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("kind", TRAININGS)
def test_every_client_steps_as_pytorch_would(kind: str, groups: str) -> None:
    torch.manual_seed(0)
    training = Training(**TRAININGS[kind])
    net = {name: Loose(name) for name in ("a", "b")}
    stack = Stack(Template(net, Task((1,), 2)), CLIENTS + 1, torch.device("cpu"))
    weights = {path: stack.weights[path][:CLIENTS] for path in SHAPES}
    for tensor in weights.values():
        tensor.copy_(numbers(*tensor.shape))
    slopes = [{path: 3 * numbers(CLIENTS, *shape) for path, shape in SHAPES.items()} for _ in range(STEPS)]
    before = {path: tensor.clone() for path, tensor in stack.weights.items()}
    for kind_of_slot in ("velocity", "mean", "square"):
        # Full of what another phase has left behind.
        stack.slots(kind_of_slot).fill_(63)
    given = [
        (Rule.of(group, training), [path for path in SHAPES if path.startswith(group.networks)])
        for group in GROUPS[groups]
    ]
    optimizer = Optimizer(given, training, stack, CLIENTS)
    optimizer.forget()
    optimizer.set_rates([rule.learning_rate / 2 for rule, _ in given])
    for number, slope in enumerate(slopes):
        active = torch.tensor([number < end for end in ENDS])
        # Whoever is out of batches may well have gradients that are no numbers.
        given_slope = {
            path: tensor.masked_fill(~active.view(-1, *(1 for _ in tensor.shape[1:])), math.nan)
            for path, tensor in slope.items()
        }
        optimizer.step(given_slope, active, torch.tensor(number + 1))
    for client, end in enumerate(ENDS):
        expected = alone(
            {path: before[path][client] for path in SHAPES},
            [{path: tensor[client] for path, tensor in slope.items()} for slope in slopes[:end]],
            GROUPS[groups],
            training,
        )
        for path, tensor in expected.items():
            assert torch.allclose(weights[path][client], tensor, rtol=1e-12, atol=1e-14), (client, path)
    assert all(torch.equal(stack.weights[path][CLIENTS], tensor[CLIENTS]) for path, tensor in before.items())
