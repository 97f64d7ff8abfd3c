"""The transcription of FedClassAvg: its losses on a few points, its rounds on the model of three numbers of tiny."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import pytest
import torch
from torch import Tensor

from .literal import Params, PartedClient, Rule, TwoViewClient, contrastive_loss, distance, fedclassavg, lgfedavg
from .tiny import miss, numbers, one_by_one, parted, values


def rows(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def viewed(client: PartedClient, *second: float) -> TwoViewClient:
    """The client with a second view, which is the first one again unless told."""
    parts = {field.name: getattr(client, field.name) for field in dataclasses.fields(client)}
    return TwoViewClient(**parts, x2=torch.tensor(second, dtype=torch.float64) if second else client.x)


def test_contrastive_loss_by_hand() -> None:
    z1, z2 = rows([2.0, 0.0], [0.0, 3.0]), rows([0.0, 0.5], [0.0, 1.0])  # in units: e1, e2; e2, e2
    loss = contrastive_loss(z1, z2, torch.tensor([0, 1]), tau=0.5)
    e = math.exp(2.0)  # exp(1 / tau), while exp(0 / tau) = 1
    anchors = [
        math.log(1 + 1 + 1),  # e1 of class 0: orthogonal to all, its positive among them
        -math.log(e / (1 + e + e)),  # e2 of class 1
        -math.log(1 / (1 + e + e)),  # e2 of class 0, whose positive is e1
        -math.log(e / (1 + e + e)),
    ]
    assert loss.item() == pytest.approx(sum(anchors) / 4)


def test_contrastive_loss_takes_the_mean_over_positives_outside_the_logarithm() -> None:
    z1, z2 = rows([1.0, 0.0], [0.0, 1.0]), rows([1.0, 0.0], [0.0, 1.0])
    loss = contrastive_loss(z1, z2, torch.tensor([4, 4]), tau=1.0)
    log_sum = math.log(math.e + 2)
    assert loss.item() == pytest.approx(((log_sum - 1) + log_sum + log_sum) / 3)


def test_contrastive_loss_of_one_sample_is_zero() -> None:
    assert contrastive_loss(rows([1.0, 2.0]), rows([-3.0, 1.0]), torch.tensor([1]), 0.1).item() == pytest.approx(0)


def test_contrastive_loss_looks_at_directions_alone() -> None:
    z1, z2 = rows([1.0, 2.0], [-1.0, 0.5]), rows([0.3, 0.1], [2.0, -1.0])
    y = torch.tensor([0, 1])
    assert contrastive_loss(z1, z2, y, 0.3).item() == pytest.approx(contrastive_loss(7 * z1, 0.1 * z2, y, 0.3).item())
    z1[0] = 0.0  # a representation of no direction is neither an error nor not a number
    assert math.isfinite(contrastive_loss(z1, z2, y, 0.3).item())


def test_contrastive_loss_as_released() -> None:
    z1, z2, y = rows([10.0, 0.0], [0.0, 20.0]), rows([30.0, 0.0], [10.0, 10.0]), torch.tensor([0, 1])
    loss = contrastive_loss(z1, z2, y, tau=0.5, scaling="release")
    dots = [[0, 0, 300, 100], [0, 0, 0, 200], [300, 0, 0, 300], [100, 200, 300, 0]]
    partner = [2, 3, 0, 1]
    total = 0.0
    for i in range(4):
        log_sum = math.log(sum(math.exp(dots[i][a] / 100) for a in range(4) if a != i))
        total += log_sum - dots[i][partner[i]] / 100
    assert loss.item() == pytest.approx(100 / 0.07 * total / 4)


def test_distance_is_one_norm_over_all_tensors() -> None:
    w = {"head.weight": rows([1.0, 2.0], [0.0, 0.0]).requires_grad_(), "head.bias": rows([0.0, 2.0]).requires_grad_()}
    zero = {name: torch.zeros_like(value) for name, value in w.items()}
    assert distance(w, zero).item() == 3.0
    (gradient,) = torch.autograd.grad(distance(w, zero), w["head.bias"])
    assert gradient[0].tolist() == pytest.approx([0, 2 / 3])
    assert distance(w, w).item() == 0.0


def test_steps_by_hand_without_the_contrastive_loss() -> None:
    clients = [viewed(parted(1.0, 9.0, 9.0, 1.5), -4.0)]
    head = numbers(head_h=0.5, head_c=0.1)
    _, (held,) = fedclassavg(clients, [[0]], one_by_one(2), Rule(0.5), head, rho=0.4, tau=0.1, with_contrastive=False)
    m = miss(0.5 * 1.5 + 0.1)  # of the first view; the second is not classified
    b, h, c = 1 + 0.5 * m * 0.5 * 1.5, 0.5 + 0.5 * m * 1.5, 0.1 + 0.5 * m  # equation 5 has the derivative 0 here
    away = math.hypot(h - 0.5, c - 0.1)
    m = miss(h * b * 1.5 + c)
    expected = {
        "body.b": b + 0.5 * m * h * 1.5,
        "head.h": h + 0.5 * (m * b * 1.5 - 0.4 * (h - 0.5) / away),
        "head.c": c + 0.5 * (m - 0.4 * (c - 0.1) / away),
    }
    assert values(held) == pytest.approx(expected)


def test_the_contrastive_loss_trains_the_body() -> None:
    """Representations (x, b): their directions depend on b, and the head is constant."""

    def body(params: Params, x: Tensor) -> Tensor:
        return torch.stack([x, params["body.b"].expand(len(x))], dim=1)

    def flat(params: Params, r: Tensor) -> Tensor:
        return params["head.c"] * torch.ones_like(r) + 0 * r

    def loss(b: float) -> float:
        units = [(x / math.hypot(x, b), b / math.hypot(x, b)) for x in (1.0, -2.0, 3.0, 0.5)]
        total = 0.0
        for i, partner in enumerate([2, 3, 0, 1]):
            dots = [(units[i][0] * other[0] + units[i][1] * other[1]) / 0.7 for other in units]
            total += math.log(sum(math.exp(dots[a]) for a in range(4) if a != i)) - dots[partner]
        return total / 4

    x, x2 = torch.tensor([1.0, -2.0], dtype=torch.float64), torch.tensor([3.0, 0.5], dtype=torch.float64)
    client = TwoViewClient(body, flat, numbers(body_b=0.8, head_c=0.0), x, torch.tensor([0, 1]), x2)
    _, (held,) = fedclassavg([client], [[0]], lambda *_: [[0, 1]], Rule(1.0), numbers(head_c=0.0), rho=0.4, tau=0.7)
    slope = (loss(0.8 + 1e-6) - loss(0.8 - 1e-6)) / 2e-6
    assert abs(slope) > 0.05
    assert values(held) == pytest.approx({"body.b": 0.8 - slope, "head.c": 0.0}, abs=1e-8)


def test_rounds_average_heads_and_keep_bodies() -> None:
    clients = [
        viewed(parted(1.0, 9.0, 9.0, 1.0)),
        viewed(parted(3.0, 7.0, 7.0, 1.0)),
        viewed(parted(2.0, 8.0, 8.0, 2.0, 2.0, 2.0)),
    ]
    cohorts: list[list[int]] = [[2, 0], [], [0]]
    head = numbers(head_h=0.5, head_c=0.1)
    server, held = fedclassavg(clients, cohorts, one_by_one(1), Rule(1.0), head, rho=0.4, tau=0.1)
    # a batch of one sample has no contrastive loss, and the first of a round is at distance 0: LG-FedAvg
    plain = [parted(1.0, 9.0, 9.0, 1.0), parted(3.0, 7.0, 7.0, 1.0), parted(2.0, 8.0, 8.0, 2.0, 2.0, 2.0)]
    expected, expected_held = lgfedavg(plain, cohorts, one_by_one(1), Rule(1.0), head)
    for got, wanted in zip([server, *held], [expected, *expected_held], strict=True):
        assert values(got) == pytest.approx(values(wanted))


def test_all_parameters_can_travel() -> None:
    def run(share: Literal["classifier", "all"], rho: float) -> tuple[dict[str, float], list[dict[str, float]]]:
        clients = [viewed(parted(7.0, 9.0, 9.0, 1.0)), viewed(parted(8.0, 9.0, 9.0, 2.0, 2.0, 2.0))]
        initial = numbers(body_b=1.0, head_h=0.5, head_c=0.1)
        server, held = fedclassavg(clients, [[0, 1]], one_by_one(2), Rule(1.0), initial, rho, tau=0.1, share=share)
        return values(server), [values(params) for params in held]

    def trained(x: float, rho: float) -> dict[str, float]:
        m = miss(0.5 * x + 0.1)
        b, h, c = 1 + m * 0.5 * x, 0.5 + m * x, 0.1 + m
        away = math.hypot(h - 0.5, c - 0.1)  # the body moved as well, and does not count
        m = miss(h * b * x + c)
        return {
            "body.b": b + m * h * x,
            "head.h": h + m * b * x - rho * (h - 0.5) / away,
            "head.c": c + m - rho * (c - 0.1) / away,
        }

    server, held = run("all", 0.4)
    first, second = trained(1.0, 0.4), trained(2.0, 0.4)
    assert held == [pytest.approx(first), pytest.approx(second)]
    assert server == pytest.approx({name: (first[name] + 3 * second[name]) / 4 for name in first})
    server, held = run("classifier", 0.4)
    assert set(server) == {"head.h", "head.c"}
    assert held[0]["body.b"] > 7.0


def test_without_averaging_every_client_trains_alone() -> None:
    def run(averaging: bool, rho: float, cohorts: list[list[int]]) -> tuple[Params, list[Params]]:
        clients = [viewed(parted(1.0, 0.5, 0.1, 1.0)), viewed(parted(-1.0, 2.0, 0.0, 2.0))]
        head = numbers(head_h=9.0, head_c=9.0)
        return fedclassavg(clients, cohorts, one_by_one(2), Rule(0.5), head, rho, tau=0.1, averaging=averaging)

    server, held = run(False, 0.4, [[0, 1], [0]])
    assert values(server) == {"head.h": 9.0, "head.c": 9.0}
    alone = parted(1.0, 0.5, 0.1, 1.0)
    for _ in range(2):
        lgfedavg([alone], [[0]], one_by_one(2), Rule(0.5), {name: alone.params[name] for name in ("head.h", "head.c")})
    assert values(held[0]) == pytest.approx(values(alone.params))
    other = run(True, 0.4, [[0, 1], [0]])[1]
    assert values(held[0]) != pytest.approx(values(other[0]))


@pytest.mark.parametrize("scaling", ["paper", "release"])
def test_every_term_changes_the_result(scaling: Literal["paper", "release"]) -> None:
    def run(rho: float, contrastive: bool, tau: float = 0.5) -> dict[str, float]:
        client = viewed(parted(1.0, 9.0, 9.0, 1.0, -2.0, y=[0, 1]), 0.5, 1.5)
        client.body = lambda params, x: torch.stack([params["body.b"] * x, x + params["body.b"]], dim=1)
        _, (held,) = fedclassavg(
            [client],
            [[0]],
            lambda *_: [[0, 1]] * 3,
            Rule(1e-3),
            numbers(head_h=0.5, head_c=0.1),
            rho,
            tau,
            scaling,
            with_contrastive=contrastive,
        )
        return values(held)

    results = [run(0.0, False), run(0.4, False), run(0.0, True), run(0.4, True)]
    assert [len({result[name] for result in results}) for name in ("body.b", "head.h", "head.c")] == [4, 4, 4]
    assert (run(0.0, True, tau=0.7) == run(0.0, True)) == (scaling == "release")


def test_momentum_lasts_for_one_round() -> None:
    def run(steps: int, momentum: float) -> dict[str, float]:
        client = viewed(parted(1.0, 0.5, 0.1, 1.0))
        rule, head = Rule(0.5, momentum=momentum), numbers(head_h=0.5, head_c=0.1)
        _, (held,) = fedclassavg([client], [[0]] * 3, one_by_one(steps), rule, head, rho=0.4, tau=0.1)
        return values(held)

    assert run(1, 0.9) == run(1, 0.0)
    assert run(2, 0.9) != run(2, 0.0)


def test_what_was_given_is_left_alone_and_phases_count_from_zero() -> None:
    asked = []

    def batches(t: int, k: int, phase: int) -> list[list[int]]:
        asked.append((t, k, phase))
        return [[0]]

    clients = [viewed(parted(1.0, 1.0, 0.0, 1.0)), viewed(parted(1.0, 1.0, 0.0, 1.0))]
    given = [client.params for client in clients]
    head = numbers(head_h=0.5, head_c=0.1)
    fedclassavg(clients, [[1], [1, 0]], batches, Rule(1.0), head, rho=0.4, tau=0.1)
    assert asked == [(1, 1, 0), (2, 0, 0), (2, 1, 0)]
    assert values(head) == {"head.h": 0.5, "head.c": 0.1}
    assert all(values(params) == {"body.b": 1.0, "head.h": 1.0, "head.c": 0.0} for params in given)
