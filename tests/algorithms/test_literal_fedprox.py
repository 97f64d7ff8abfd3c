"""The transcription of FedProx, on the model of one number (see ``tiny``)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from .literal import LiteralClient, Params, Rule, fedavg, fedprox
from .tiny import make, miss, number, one_by_one, values


def test_steps_by_hand() -> None:
    w, (held,) = fedprox([make(9.0, 1.0)], [[0]], one_by_one(3), Rule(0.5), number("w", 0.2), mu=0.8)
    expected = 0.2
    for _ in range(3):  # mu / 2 * (w - 0.2)^2 has the derivative mu * (w - 0.2), which is 0 at the first step
        expected += 0.5 * (miss(expected) - 0.8 * (expected - 0.2))
    assert w["w"].item() == held["w"].item() == pytest.approx(expected)


def test_the_term_is_about_the_model_of_this_round() -> None:
    clients = [make(0.0, 1.0), make(0.0, 2.0, 2.0, 2.0), make(7.0, 1.0)]
    w, held = fedprox(clients, [[1, 0], [0]], one_by_one(2), Rule(1.0), number("w", 0.0), mu=0.3)

    def trained(start: float, x: float) -> float:
        first = start + x * miss(start * x)
        return first + x * miss(first * x) - 0.3 * (first - start)

    average = (1 * trained(0.0, 1.0) + 3 * trained(0.0, 2.0)) / 4
    assert w["w"].item() == held[0]["w"].item() == pytest.approx(trained(average, 1.0))
    assert held[1]["w"].item() == pytest.approx(trained(0.0, 2.0))
    assert held[2]["w"].item() == 7.0


def test_the_term_is_over_all_parameters() -> None:
    def affine(params: Params, x: Tensor) -> Tensor:
        return torch.stack([params["w"] * x + params["b"].sum(), torch.zeros_like(x)], dim=1)

    initial = {**number("w", 0.0), "b": torch.zeros(2, dtype=torch.float64)}
    client = LiteralClient(affine, {}, torch.tensor([2.0], dtype=torch.float64), torch.tensor([0]))
    after, _ = fedprox([client], [[0]], one_by_one(2), Rule(1.0), initial, mu=0.5)
    g = miss(1.0 * 2 + 0.5 + 0.5)  # after the first step w = 1 and b = (1/2, 1/2)
    assert after["w"].item() == pytest.approx(1 + 2 * g - 0.5 * 1)
    assert after["b"].tolist() == pytest.approx([0.5 + g - 0.5 * 0.5] * 2)


@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_without_the_term_it_is_fedavg(mu: float) -> None:
    def clients() -> list[LiteralClient]:
        return [make(0.0, 1.0), make(0.0, 2.0, 3.0)]

    rule = Rule(0.7, momentum=0.9, weight_decay=0.1, clip_norm=0.5)
    prox, prox_held = fedprox(clients(), [[0, 1], [], [1]], one_by_one(3), rule, number("w", 0.5), mu)
    avg, avg_held = fedavg(clients(), [[0, 1], [], [1]], one_by_one(3), rule, number("w", 0.5))
    same = [values(p) == values(a) for p, a in zip([prox, *prox_held], [avg, *avg_held], strict=True)]
    assert all(same) if mu == 0 else not any(same)
