"""The transcription of LG-FedAvg, on the model of three numbers (see ``tiny``)."""

from __future__ import annotations

import pytest
import torch

from .literal import LiteralClient, Params, Rule, fedavg, lgfedavg
from .tiny import miss, numbers, one_by_one, parted, values


def step(b: float, h: float, c: float, x: float) -> tuple[float, float, float]:
    """One step of length 1 on a sample x of class 0."""
    g = miss(h * b * x + c)
    return b + g * h * x, h + g * b * x, c + g


def test_rounds_by_hand() -> None:
    clients = [parted(1.0, 9.0, 9.0, 1.0), parted(-0.5, 8.0, 8.0, 2.0, 2.0, 2.0), parted(3.0, 7.0, 7.0, 1.0)]
    cohorts = [[1, 0], [], [0]]
    server, held = lgfedavg(clients, cohorts, one_by_one(1), Rule(1.0), numbers(head_h=0.5, head_c=0.1))
    b_0, h_0, c_0 = step(1.0, 0.5, 0.1, 1.0)
    b_1, h_1, c_1 = step(-0.5, 0.5, 0.1, 2.0)
    h, c = (1 * h_0 + 3 * h_1) / 4, (1 * c_0 + 3 * c_1) / 4
    b_0, h_0, c_0 = step(b_0, h, c, 1.0)  # its own body and the averaged head
    assert values(server) == pytest.approx({"head.h": h_0, "head.c": c_0})
    assert values(held[0]) == pytest.approx({"body.b": b_0, "head.h": h_0, "head.c": c_0})
    assert values(held[1]) == pytest.approx({"body.b": b_1, "head.h": h_1, "head.c": c_1})  # not the average
    assert values(held[2]) == {"body.b": 3.0, "head.h": 7.0, "head.c": 7.0}


def test_body_and_head_are_clipped_together() -> None:
    rule = Rule(1.0, clip_norm=0.1)
    _, (held,) = lgfedavg([parted(1.0, 0.0, 0.0, 2.0)], [[0]], one_by_one(1), rule, numbers(head_h=0.5, head_c=0.0))
    g = [miss(1.0) * 0.5 * 2, miss(1.0) * 2, miss(1.0)]
    factor = 0.1 / (sum(value**2 for value in g) ** 0.5 + 1e-6)
    assert list(values(held).values()) == pytest.approx([1 + factor * g[0], 0.5 + factor * g[1], factor * g[2]])


def test_one_client_alone_trains_as_in_fedavg() -> None:
    rule = Rule(0.5, momentum=0.9, weight_decay=0.1)
    head = numbers(head_h=0.5, head_c=0.1)
    client = parted(1.0, 0.5, 0.1, 1.0, -2.0, y=[0, 1])

    def batches(t: int, _k: int, _phase: int) -> list[list[int]]:
        return [[0, 1], [t % 2]]

    server, (held,) = lgfedavg([client], [[0]] * 3, batches, rule, head)
    whole = LiteralClient(client.forward, {}, client.x, torch.tensor([0, 1]))
    expected, _ = fedavg([whole], [[0]] * 3, batches, rule, {**numbers(body_b=1.0), **head})
    assert values(held) == values(expected)
    assert values(server).items() < values(expected).items()


def test_what_was_given_is_left_alone_and_phases_count_from_zero() -> None:
    asked = []

    def batches(t: int, k: int, phase: int) -> list[list[int]]:
        asked.append((t, k, phase))
        return [[0]]

    clients = [parted(1.0, 1.0, 0.0, 1.0), parted(1.0, 1.0, 0.0, 1.0)]
    given: list[Params] = [client.params for client in clients]
    head = numbers(head_h=0.5, head_c=0.1)
    lgfedavg(clients, [[1], [1, 0]], batches, Rule(1.0), head)
    assert asked == [(1, 1, 0), (2, 0, 0), (2, 1, 0)]
    assert values(head) == {"head.h": 0.5, "head.c": 0.1}
    assert all(values(params) == {"body.b": 1.0, "head.h": 1.0, "head.c": 0.0} for params in given)
