"""FD's transcription, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from .literal import Rule, fd
from .literal.fd import distillation, targets_for
from .parted_toys import first, make, none, sigmoid, stepped, vector, whole


def test_a_target_is_the_mean_of_what_the_others_gave() -> None:
    table = {
        0: {0: vector(0.9, 0.1), 1: vector(0.6, 0.4), 2: vector(0.2, 0.8)},
        1: {1: vector(0.3, 0.7)},
    }
    assert targets_for(0, table)[0].tolist() == pytest.approx([0.4, 0.6])
    assert targets_for(0, table)[1].tolist() == [0.3, 0.7]
    assert list(targets_for(1, table)) == [0]  # class 1 has nobody else's
    assert targets_for(3, table)[0].tolist() == pytest.approx([1.7 / 3, 1.3 / 3])


def test_samples_without_a_target_count_in_the_mean() -> None:
    z = torch.tensor([[math.log(3), 0.0], [5.0, 1.0]], dtype=torch.float64)
    loss = distillation(z, torch.tensor([0, 1]), {0: vector(0.25, 0.75)})
    assert loss.item() == pytest.approx(-(0.25 * math.log(0.75) + 0.75 * math.log(0.25)) / 2)


def test_means_are_of_the_trained_model_over_all_own_samples() -> None:
    clients = [make([1.0], [2.0], [0.5, 1.0, -1.0], [0, 0, 1])]
    table, (held,) = fd(clients, [[0]], first(1), Rule(1.0), 1.0)
    w, v = stepped(1.0, 2.0, 0.5, sigmoid(1.0) - 1)
    assert held["body.w"].item() == pytest.approx(w)
    p = (sigmoid(w * v * 0.5) + sigmoid(w * v)) / 2
    assert table[0][0].tolist() == pytest.approx([p, 1 - p])
    p = sigmoid(-w * v)
    assert table[1][0].tolist() == pytest.approx([p, 1 - p])


def test_a_class_nobody_holds_is_not_in_the_table() -> None:
    table, _ = fd([make([1.0], [2.0], [0.5]), make([1.0], [1.0], [2.0])], [[0, 1]], first(1), Rule(1.0), 1.0)
    assert {s: list(given) for s, given in table.items()} == {0: [0, 1]}


def test_the_second_round_by_hand() -> None:
    clients = [make([1.0], [2.0], [0.5, -1.0], [0, 1]), make([1.0], [1.0], [2.0])]
    table, held = fd(clients, [[1], [0]], whole(clients), Rule(1.0), 0.25)
    w, v = stepped(1.0, 1.0, 2.0, sigmoid(2.0) - 1)
    target = sigmoid(w * v * 2)
    # class 0 has a target, class 1 none; lambda = 1/4, and the batch has two samples
    dz_w = (sigmoid(1.0) - 1) * 0.5 + sigmoid(-2.0) * -1 + 0.25 * (sigmoid(1.0) - target) * 0.5
    assert held[0]["body.w"].item() == pytest.approx(1 - dz_w / 2 * 2)
    assert held[0]["head.v"].item() == pytest.approx(2 - dz_w / 2 * 1)
    assert list(table[0]) == [0]  # round 2 replaced what client 1 gave in round 1
    assert held[1]["body.w"].item() == pytest.approx(w)


@pytest.mark.parametrize("cohorts", [[[0]] * 3, [[0, 1]] * 3])
def test_a_client_alone_with_its_classes_never_distils(cohorts: list[list[int]]) -> None:
    def after(lam: float) -> float:
        clients = [make([1.0], [2.0], [0.5]), make([1.0], [1.0], [2.0], [1])]
        return fd(clients, cohorts, first(1), Rule(1.0), lam)[1][0]["body.w"].item()

    assert after(0.0) == after(5.0)


def test_a_class_absent_from_a_round_keeps_what_it_had() -> None:
    clients = [make([1.0], [2.0], [0.5, -1.0], [0, 1]), make([1.0], [1.0], [2.0], [1]), make([3.0], [1.0], [1.0])]
    table, _ = fd(clients, [[0], [1]], none, Rule(1.0), 1.0)
    assert {s: list(given) for s, given in table.items()} == {0: [0], 1: [1]}
    assert table[0][0].tolist() == pytest.approx([sigmoid(1.0), sigmoid(-1.0)])

    # In round 3 client 2 still learns from what client 0 gave to class 0 in round 1.
    _, held = fd(clients, [[0], [1], [2]], lambda t, _k, _phase: [[0]] * (t == 3), Rule(1.0), 0.5)
    dz = (sigmoid(3.0) - 1) + 0.5 * (sigmoid(3.0) - sigmoid(1.0))
    assert held[2]["body.w"].item() == pytest.approx(3 - dz)


def test_every_contributor_counts_alike() -> None:
    clients = [make([1.0], [1.0], [1.0]), make([2.0], [1.0], [1.0, 1.0, 1.0]), make([3.0], [1.0], [1.0])]
    _, held = fd(clients, [[0, 1], [2]], lambda t, _k, _phase: [[0]] * (t == 2), Rule(1.0), 0.5)
    target = (sigmoid(1.0) + sigmoid(2.0)) / 2
    dz = (sigmoid(3.0) - 1) + 0.5 * (sigmoid(3.0) - target)
    assert held[2]["body.w"].item() == pytest.approx(3 - dz)
