"""Gradients within a vmap, without PyTorch's compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from potluck.engines.stacked.gradient import gradients_and_value
from potluck.engines.stacked.template import Weights

Loss = Callable[[Weights], tuple[Tensor, Weights]]
LOSSES: dict[str, Loss] = {
    "of all": lambda w: ((w["a"] ** 3).sum() * w["b"].sin().sum(), {"seen": 2 * w["a"]}),
    "of one": lambda w: (w["b"].exp().sum(), {}),
    "of none": lambda w: (torch.ones(()), {"seen": w["a"]}),
    "of a gradient": lambda w: (
        torch.func.grad(lambda x: (x**4 * w["b"]).sum())(w["a"]).square().sum(), {"seen": w["b"]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_it_gives_what_pytorch_does(name: str) -> None:
    loss = LOSSES[name]
    weights = {"a": torch.rand(4, 3, dtype=torch.float64), "b": torch.rand(4, 3, dtype=torch.float64)}
    expected = torch.func.vmap(torch.func.grad_and_value(loss, has_aux=True))(weights)
    found = torch.func.vmap(lambda own: gradients_and_value(loss, own))(weights)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert not any(tensor.requires_grad for tensor in found[0].values())


def test_a_loss_of_several_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a loss is a single number, and this one has the shape \(1,\)"):
        gradients_and_value(lambda w: (w["a"].sum().unsqueeze(0), {}), {"a": torch.ones(2)})


def test_what_is_kept_for_gradients_stays() -> None:
    def loss(weights: Weights) -> tuple[Tensor, Weights]:
        with torch.autograd.graph.save_on_cpu():
            return weights["a"].exp().sum(), {}

    with pytest.raises(RuntimeError, match="within a vmap"):
        torch.func.vmap(lambda own: gradients_and_value(loss, own))({"a": torch.ones(2, 2)})


def test_neither_a_compiler_nor_algebra_is_loaded() -> None:
    """It would take longer than to train a small client."""
    code = """
import sys, torch
from torch import nn
from potluck import Client, Federation
from potluck.algorithms import find
data = torch.rand(6, 1, 4, 4), torch.arange(6) % 2
def net():
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2))
nets = [net() for _ in range(2)]
clients = [Client(net, train=data, test=data) for net in nets]
federation = Federation(find("standalone")(), clients, engine="stacked", device="cpu")
federation.run(1, watch=lambda event: None)
assert federation.engine.notes == ()
sys.exit("torch._dynamo" in sys.modules or "sympy" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
