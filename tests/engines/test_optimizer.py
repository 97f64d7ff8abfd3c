"""Steps of learning, against the update rules written out in float64."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from potluck import draws
from potluck.contract import Group, Networks, Phase
from potluck.engines.optimizer import Optimizer
from potluck.errors import ModelError
from potluck.training import Training

from .made_up import cross_entropy

STEPS = 5
X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)


def networks() -> Networks:
    with draws.initial_weights(0):
        return Networks({"a": nn.Linear(3, 2).double(), "b": nn.Linear(3, 2).double()})


def loss_of(a: Tensor, b: Tensor) -> Tensor:
    """Gradients of the two networks differ much in size."""
    return (a**2).sum() + 30 * (b - 1).pow(4).sum()


@dataclass
class Rule:
    """One group's update, as a textbook has it."""

    rate: float
    momentum: float = 0.0
    decay: float = 0.0
    clip: float | None = None
    project: Callable[[Tensor], Tensor] | None = None
    betas: tuple[float, float] | None = None
    memory: dict[str, Any] = field(default_factory=dict)

    def step(self, weights: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        norm = sum(float((g**2).sum()) for g in gradients.values()) ** 0.5
        scale = 1.0 if self.clip is None else min(1.0, self.clip / (norm + 1e-6))
        self.memory["t"] = self.memory.get("t", 0) + 1
        for path, weight in weights.items():
            gradient = gradients[path] * scale + self.decay * weight
            change = self._adam(path, gradient) if self.betas else self._sgd(path, gradient)
            weights[path] = weight - self.rate * change
            if self.project is not None:
                weights[path] = self.project(weights[path])

    def _sgd(self, path: str, gradient: Tensor) -> Tensor:
        self.memory[path] = gradient + self.momentum * self.memory.get(path, torch.zeros_like(gradient))
        velocity: Tensor = self.memory[path]
        return velocity

    def _adam(self, path: str, gradient: Tensor) -> Tensor:
        assert self.betas is not None
        (first, second), t = self.betas, self.memory["t"]
        m, v = self.memory.get(path, (torch.zeros_like(gradient), torch.zeros_like(gradient)))
        m, v = first * m + (1 - first) * gradient, second * v + (1 - second) * gradient**2
        self.memory[path] = m, v
        change: Tensor = (m / (1 - first**t)) / ((v / (1 - second**t)).sqrt() + 1e-8)
        return change


def by_hand(rules: list[tuple[tuple[str, ...], Rule]]) -> dict[str, Tensor]:
    net = networks()
    weights = net.state()
    for _ in range(STEPS):
        live = {path: weight.requires_grad_() for path, weight in weights.items()}
        a, b = (
            functional_call(net.modules[name], {p[2:]: w for p, w in live.items() if p.startswith(name)}, (X,))
            for name in ("a", "b")
        )
        gradients = dict(zip(live, torch.autograd.grad(loss_of(a, b), list(live.values())), strict=True))
        weights = {path: weight.detach() for path, weight in weights.items()}
        for names, rule in rules:
            own = {path: weight for path, weight in weights.items() if path[0] in names}
            rule.step(own, gradients={path: gradients[path] for path in own})
            weights |= own
    return weights


def by_optimizer(entries: tuple[str | Group, ...], factor: float = 1.0, **training: Any) -> dict[str, Tensor]:
    net = networks()
    optimizer = Optimizer(Phase(train=entries, loss=cross_entropy), net, Training(**training), factor)
    for _ in range(STEPS):
        optimizer.step(loss_of(net.a(X), net.b(X)))
    return net.state()


def agree(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    before = networks().state()
    for path, tensor in expected.items():
        assert torch.allclose(found[path], tensor, rtol=1e-12, atol=1e-12), path
        assert not torch.allclose(tensor, before[path], atol=1e-9), "the test moves nothing"


PLAIN: dict[str, Any] = {"learning_rate": 0.01, "momentum": 0.0, "weight_decay": 0.0, "clip_norm": None}
BOTH = ("a", "b")


@pytest.mark.parametrize(
    "rule",
    [
        Rule(0.01),
        Rule(0.01, momentum=0.9),
        Rule(0.01, momentum=0.5, decay=0.1),
        Rule(0.01, clip=0.5),
        Rule(0.01, momentum=0.9, decay=0.01, clip=2.0),
    ],
    ids=["plain", "momentum", "decay", "clip", "all"],
)
def test_sgd(rule: Rule) -> None:
    found = by_optimizer(
        BOTH, learning_rate=rule.rate, momentum=rule.momentum, weight_decay=rule.decay, clip_norm=rule.clip
    )
    agree(found, by_hand([(BOTH, rule)]))


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.9)])
def test_adam(betas: tuple[float, float], decay: float) -> None:
    found = by_optimizer(BOTH, **{**PLAIN, "weight_decay": decay}, optimizer="adam", betas=betas)
    agree(found, by_hand([(BOTH, Rule(0.01, decay=decay, betas=betas))]))


def test_adam_has_no_momentum_of_sgd() -> None:
    one, other = (by_optimizer(BOTH, **{**PLAIN, "momentum": m}, optimizer="adam") for m in (0.0, 0.9))
    assert all(torch.equal(one[path], other[path]) for path in one)


def test_a_group_has_its_own_rule_and_the_others_the_run_s() -> None:
    run = Rule(0.01, momentum=0.9, decay=0.01)
    own = Group(("b",), learning_rate=0.002, momentum=0.3, weight_decay=0.2)
    found = by_optimizer(("a", own), learning_rate=0.01, momentum=0.9, weight_decay=0.01, clip_norm=None)
    agree(found, by_hand([(("a",), run), (("b",), Rule(0.002, momentum=0.3, decay=0.2))]))


def test_a_group_may_turn_momentum_and_decay_off() -> None:
    own = Group(("b",), momentum=0.0, weight_decay=0.0)
    found = by_optimizer(("a", own), learning_rate=0.01, momentum=0.9, weight_decay=0.1, clip_norm=None)
    agree(found, by_hand([(("a",), Rule(0.01, momentum=0.9, decay=0.1)), (("b",), Rule(0.01))]))


def test_a_group_of_adam_has_its_own_rate_and_decay() -> None:
    own = Group(("b",), learning_rate=0.05, weight_decay=0.2)
    found = by_optimizer(("a", own), **PLAIN, optimizer="adam")
    betas = (0.9, 0.999)
    agree(found, by_hand([(("a",), Rule(0.01, betas=betas)), (("b",), Rule(0.05, decay=0.2, betas=betas))]))


def test_gradients_are_clipped_per_group() -> None:
    found = by_optimizer(("a", Group(("b",))), **{**PLAIN, "clip_norm": 1.0})
    agree(found, by_hand([(("a",), Rule(0.01, clip=1.0)), (("b",), Rule(0.01, clip=1.0))]))
    together = by_hand([(BOTH, Rule(0.01, clip=1.0))])
    assert not torch.allclose(found["a.weight"], together["a.weight"], atol=1e-6)


def test_a_group_has_its_own_limit() -> None:
    own = Group(("b",), clip_norm=0.2)
    for limit in (None, 3.0):
        found = by_optimizer(("a", own), **{**PLAIN, "clip_norm": limit})
        agree(found, by_hand([(("a",), Rule(0.01, clip=limit)), (("b",), Rule(0.01, clip=0.2))]))


def test_a_projection_is_applied_after_every_step_to_its_group_alone() -> None:
    own = Group(("b",), learning_rate=0.05, momentum=0.9, project=lambda w: w.clamp(0, 1))
    found = by_optimizer(("a", own), **PLAIN)
    rule = Rule(0.05, momentum=0.9, project=lambda w: w.clamp(0, 1))
    agree(found, by_hand([(("a",), Rule(0.01)), (("b",), rule)]))
    inside = torch.cat([found["b.weight"].flatten(), found["b.bias"]])
    assert 0 <= float(inside.min()) <= float(inside.max()) <= 1
    assert bool((inside == 0).any()) or bool((inside == 1).any())
    assert float(found["a.weight"].min()) < 0


def test_a_schedule_multiplies_every_group_s_rate() -> None:
    own = Group(("b",), learning_rate=0.05)
    found = by_optimizer(("a", own), factor=0.25, **PLAIN)
    agree(found, by_hand([(("a",), Rule(0.0025)), (("b",), Rule(0.0125))]))


def test_what_is_in_no_group_stays() -> None:
    found = by_optimizer(("b",), **PLAIN)
    before = networks().state("a")
    assert all(torch.equal(found[path], tensor) for path, tensor in before.items())
    assert not torch.equal(found["b.weight"], networks().state()["b.weight"])


def test_gradients_do_not_add_up_over_steps() -> None:
    net = networks()
    optimizer = Optimizer(Phase(train=BOTH, loss=cross_entropy), net, Training(**PLAIN), 1.0)
    optimizer.step(net.a(X).sum() + net.b(X).sum())
    before = net.state()
    optimizer.step(net.a(X).sum() + net.b(X).sum())
    assert torch.allclose(net.state()["a.bias"], before["a.bias"] - 0.01 * len(X), atol=1e-15)


def test_a_weight_in_common_moves_once() -> None:
    shared = nn.Linear(3, 2, bias=False).double()
    net = Networks({"a": nn.Sequential(shared), "b": nn.Sequential(shared)})
    before = shared.weight.detach().clone()
    training = Training(learning_rate=1.0, momentum=0.0, weight_decay=0.0, clip_norm=None)
    together = Phase(train=(Group(("a", "b")),), loss=cross_entropy)
    Optimizer(together, net, training, 1.0).step(shared.weight.sum())
    assert torch.equal(shared.weight, before - 1)
    apart = Phase(train=(Group(("a",)), Group(("b",))), loss=cross_entropy)
    with pytest.raises(ModelError, match="two groups of a phase have a weight in common"):
        Optimizer(apart, net, training, 1.0)


def test_no_compiler_is_loaded() -> None:
    """It would take longer than to train a small client."""
    code = """
import sys, torch
from potluck.contract import Group, Networks, Phase
from potluck.engines.optimizer import Optimizer
from potluck.engines.randomness import RefuseUnseeded
from potluck.metrics.flops import predicting_flops
from potluck.training import Training
for kind in ("sgd", "adam"):
    net = Networks({"a": torch.nn.Linear(2, 2)})
    optimizer = Optimizer(Phase(train=(Group(("a",)),), loss=None), net, Training(optimizer=kind), 1.0)
    optimizer.step(net.a(torch.ones(1, 2)).sum())
with RefuseUnseeded():
    net.a(torch.ones(1, 2))
predicting_flops(net.a, (2,))
sys.exit("torch._dynamo" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
