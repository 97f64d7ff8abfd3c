"""The transcription of FedGH, on the model of three numbers (see ``tiny``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import torch

from .literal import PartedClient, Rule, averaged_representations, fedgh, lgfedavg
from .tiny import miss, numbers, one_by_one, parted, values

NO_TRAINING: Callable[[int, int, int], list[list[int]]] = one_by_one(0)


def server_gradient(h: float, c: float, r: float, label: int) -> tuple[float, float]:
    """Of the loss of the header on one representation r, by h and by c."""
    by_z = -miss(h * r + c) if label == 0 else 1 - miss(h * r + c)
    return by_z * r, by_z


def test_representations_are_averaged_by_class_in_order_of_labels() -> None:
    client = parted(2.0, 0.0, 0.0, 5.0, 1.0, 2.0, 6.0, y=[3, 0, 0, 0])
    means = averaged_representations(client, client.params)
    assert list(means) == [0, 3]
    assert means[0].tolist() == pytest.approx([2.0 * 9 / 3])
    assert means[3].tolist() == [10.0]


def test_representations_keep_their_dimensions() -> None:
    client = parted(1.0, 0.0, 0.0, 1.0, 3.0)
    client.body = lambda _params, x: torch.stack([x, x**2], dim=1)
    assert averaged_representations(client, client.params)[0].tolist() == [2.0, 5.0]  # not (2, 4): the mean comes last


def test_a_step_for_every_representation_in_order_of_clients_and_labels() -> None:
    clients = [parted(1.0, 9.0, 9.0, 3.0, 1.0, y=[1, 0]), parted(2.0, 9.0, 9.0, 1.0, 2.0)]
    server, held = fedgh(clients, [[1, 0]], NO_TRAINING, Rule(1.0), numbers(head_h=0.5, head_c=0.1), 0.2)
    h, c = 0.5, 0.1
    for r, label in [(1.0, 0), (3.0, 1), (2.0 * 1.5, 0)]:
        g_h, g_c = server_gradient(h, c, r, label)
        h, c = h - 0.2 * g_h, c - 0.2 * g_c
    assert values(server) == pytest.approx({"head.h": h, "head.c": c})
    # without a batch the client holds the header as it received it, not the one the server trained afterwards
    assert values(held[0]) == {"body.b": 1.0, "head.h": 0.5, "head.c": 0.1}


def test_a_step_for_every_client() -> None:
    clients = [parted(1.0, 9.0, 9.0, 3.0, 1.0, y=[1, 0]), parted(2.0, 9.0, 9.0, 1.0, 2.0)]
    theta = numbers(head_h=0.5, head_c=0.1)
    server, _ = fedgh(clients, [[0, 1]], NO_TRAINING, Rule(1.0), theta, 0.2, mode="client", passes=2)
    h, c = 0.5, 0.1
    for pairs in [[(1.0, 0), (3.0, 1)], [(3.0, 0)]] * 2:
        gs = [server_gradient(h, c, r, label) for r, label in pairs]
        h -= 0.2 * sum(g for g, _ in gs) / len(gs)
        c -= 0.2 * sum(g for _, g in gs) / len(gs)
    assert values(server) == pytest.approx({"head.h": h, "head.c": c})


def test_a_pass_goes_over_all_clients_before_the_next_begins() -> None:
    clients = [parted(1.0, 9.0, 9.0, 3.0, y=[1]), parted(2.0, 9.0, 9.0, 1.0)]
    server, _ = fedgh(clients, [[0, 1]], NO_TRAINING, Rule(1.0), numbers(head_h=0.5, head_c=0.1), 1.0, passes=2)
    h, c = 0.5, 0.1
    for r, label in [(3.0, 1), (2.0, 0)] * 2:
        g_h, g_c = server_gradient(h, c, r, label)
        h, c = h - g_h, c - g_c
    assert values(server) == pytest.approx({"head.h": h, "head.c": c})


def test_rounds_by_hand() -> None:
    clients = [parted(1.0, 9.0, 9.0, 1.0, -2.0), parted(3.0, 7.0, 7.0, 1.0)]
    cohorts: list[list[int]] = [[0], [], [0]]
    rule = Rule(0.5)
    server, held = fedgh(clients, cohorts, one_by_one(1), rule, numbers(head_h=0.5, head_c=0.1), 0.2)
    b, h, c = 1.0, 0.5, 0.1
    for _ in range(2):
        g = 0.5 * miss(h * b * 1.0 + c)  # on the first sample alone
        b, h_k, c_k = b + g * h, h + g * b, c + g
        g_h, g_c = server_gradient(h, c, b * -0.5, 0)  # the trained body, all samples; the header as it was sent
        h, c = h - 0.2 * g_h, c - 0.2 * g_c
    assert values(held[0]) == pytest.approx({"body.b": b, "head.h": h_k, "head.c": c_k})
    assert values(held[1]) == {"body.b": 3.0, "head.h": 7.0, "head.c": 7.0}
    assert values(server) == pytest.approx({"head.h": h, "head.c": c})


def test_the_local_rule_is_not_that_of_the_server() -> None:
    def run(rule: Rule) -> tuple[dict[str, float], dict[str, float]]:
        clients = [parted(1.0, 0.5, 0.1, 1.0, 2.0, y=[0, 1])]
        server, (held,) = fedgh(clients, [[0]], NO_TRAINING, rule, numbers(head_h=0.5, head_c=0.1), 0.2, passes=3)
        return values(server), values(held)

    assert run(Rule(1.0)) == run(Rule(0.1, momentum=0.9, weight_decay=0.5, clip_norm=1e-3))


@pytest.mark.parametrize("mode", ["representation", "client"])
def test_a_server_that_learns_nothing_sends_the_first_header_for_ever(
    mode: Literal["representation", "client"],
) -> None:
    def client() -> PartedClient:
        return parted(1.0, 9.0, 9.0, 1.0, 2.0, y=[0, 1])

    theta = numbers(head_h=0.5, head_c=0.1)
    rule = Rule(0.5, momentum=0.5)
    server, (held,) = fedgh([client()], [[0]] * 2, one_by_one(2), rule, theta, 0.0, mode)
    assert values(server) == values(theta)
    # the same as two runs of LG-FedAvg of one round each, both from that header
    again = client()
    for _ in range(2):
        lgfedavg([again], [[0]], one_by_one(2), rule, theta)
    assert values(held) == values(again.params)
