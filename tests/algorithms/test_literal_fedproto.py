"""FedProto's transcription, by hand."""

from __future__ import annotations

import pytest
import torch

from .literal import Rule, fedproto
from .literal.fedproto import distance_to_prototypes
from .parted_toys import first, make, none, sigmoid, stepped, vector, whole


def test_the_distance_is_a_mean_over_samples_and_dimensions() -> None:
    rep = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    loss = distance_to_prototypes(rep, torch.tensor([0, 1]), {0: vector(0.0, 0.0)})
    assert loss.item() == (1 + 4) / 2 / 2  # the second sample adds 0 to the mean
    assert distance_to_prototypes(rep, torch.tensor([1, 1]), {0: vector(0.0, 0.0)}).item() == 0


def test_prototypes_are_of_the_trained_body_over_all_own_samples() -> None:
    clients = [make([1.0], [2.0], [0.5, 1.0, -1.0], [0, 0, 1])]
    prototypes, (held,) = fedproto(clients, [[0]], first(1), Rule(1.0), 1.0)
    w, v = stepped(1.0, 2.0, 0.5, sigmoid(1.0) - 1)  # in round 1 there is no prototype
    assert [held["body.w"].item(), held["head.v"].item()] == pytest.approx([w, v])
    assert prototypes[0].tolist() == pytest.approx([0.75 * w])
    assert prototypes[1].tolist() == pytest.approx([-w])


def test_prototypes_are_weighted_by_class_counts() -> None:
    clients = [
        make([1.0, 2.0], [1.0, 1.0], [1.0, 5.0], [0, 1]),
        make([3.0, -2.0], [1.0, 1.0], [1.0, 2.0, 3.0, 7.0, 7.0], [0, 0, 0, 2, 2]),
    ]
    prototypes, _ = fedproto(clients, [[0, 1]], none, Rule(1.0), 1.0)
    assert sorted(prototypes) == [0, 1, 2]
    assert prototypes[0].tolist() == pytest.approx([(1 + 3 * 6) / 4, (2 - 3 * 4) / 4])
    assert prototypes[1].tolist() == [5.0, 10.0]
    assert prototypes[2].tolist() == [21.0, -14.0]


def test_a_class_nobody_holds_has_no_prototype_and_one_absent_from_a_round_keeps_its_own() -> None:
    clients = [make([1.0], [1.0], [1.0, 5.0], [0, 1]), make([3.0], [1.0], [2.0])]
    prototypes, _ = fedproto(clients, [[0], [1]], none, Rule(1.0), 1.0)
    assert {s: p.item() for s, p in prototypes.items()} == {0: 6.0, 1: 5.0}  # class 0 is client 1's alone now


def test_the_second_round_by_hand() -> None:
    clients = [make([1.0, -1.0], [2.0, 0.5], [0.5, -1.0], [0, 1]), make([1.0, 3.0], [1.0, 1.0], [2.0])]
    _, held = fedproto(clients, [[1], [0]], lambda t, _k, _phase: [[0, 1]] * (t == 2), Rule(1.0), 0.25)
    # The prototype of class 0 is (2, 6), of class 1 there is none.
    slope = ((sigmoid(1.5 * 0.5) - 1) * 0.5 + sigmoid(-1.5) * -1) / 2
    pull = [0.25 * 2 * (r - p) * 0.5 / 2 / 2 for r, p in [(0.5, 2.0), (-0.5, 6.0)]]
    assert held[0]["body.w"].tolist() == pytest.approx([1 - slope * 2 - pull[0], -1 - slope * 0.5 - pull[1]])
    assert held[0]["head.v"].tolist() == pytest.approx([2 - slope, 0.5 + slope])  # the head knows of CE only


def test_a_client_alone_is_drawn_to_its_own_means() -> None:
    def after(lam: float) -> list[float]:
        clients = [make([1.0], [2.0], [0.5, 1.0])]
        return fedproto(clients, [[0]] * 2, whole(clients), Rule(1.0), lam)[1][0]["body.w"].tolist()

    assert after(0.0) != after(1.0)
