"""FML's transcription, by hand."""

from __future__ import annotations

import pytest

from .literal import Params, PartedClient, Rule, fml
from .parted_toys import first, make, none, sigmoid, small, small_body, small_head, stepped, vector, whole


def run(
    clients: list[PartedClient], cohorts: list[list[int]], alpha: float, beta: float, steps: int = 1
) -> tuple[Params, list[Params]]:
    return fml(clients, cohorts, first(steps), Rule(1.0), small_body, small_head, small(0.5, 3.0), alpha, beta)


def test_a_round_by_hand_with_one_client_alone() -> None:
    server, (held,) = run([make([1.0], [2.0], [0.5])], [[0]], 0.25, 0.75, steps=2)
    w, v, a, b = 1.0, 2.0, 0.5, 3.0
    for _ in range(2):  # both steps from where both models stood
        s_own, s_small = sigmoid(w * v * 0.5), sigmoid(a * b * 0.5)
        dz_own = 0.25 * (s_own - 1) + 0.75 * (s_own - s_small)
        dz_small = 0.75 * (s_small - 1) + 0.25 * (s_small - s_own)
        w, v = stepped(w, v, 0.5, dz_own)
        a, b = stepped(a, b, 0.5, dz_small)
    assert [held["body.w"].item(), held["head.v"].item()] == pytest.approx([w, v])
    assert [held["small_body.w"].item(), held["small_head.v"].item()] == pytest.approx([a, b])
    assert [server["small_body.w"].item(), server["small_head.v"].item()] == pytest.approx([a, b])
    assert list(server) == ["small_body.w", "small_head.v"]


def test_losses_are_means_over_the_batch() -> None:
    clients = [make([1.0], [2.0], [0.5, -1.0], [0, 1])]
    _, (held,) = fml(clients, [[0]], whole(clients), Rule(1.0), small_body, small_head, small(0.5, 3.0), 0.25, 0.5)
    slope = 0.0
    for x, y_0 in [(0.5, 1), (-1.0, 0)]:
        s_own, s_small = sigmoid(2 * x), sigmoid(1.5 * x)
        slope += (0.25 * (s_own - y_0) + 0.75 * (s_own - s_small)) * x / 2
    assert held["body.w"].item() == pytest.approx(1 - slope * 2)


def test_alpha_and_beta_weigh_labels_against_the_other_model() -> None:
    def after(alpha: float, beta: float, label: int) -> tuple[float, float]:
        _, (held,) = run([make([1.0], [2.0], [0.5], [label])], [[0]], alpha, beta)
        return held["body.w"].item(), held["small_body.w"].item()

    assert after(0.0, 0.0, 0) == after(0.0, 0.0, 1)  # labels do not count
    own, other = after(1.0, 1.0, 0)  # the other model does not count
    assert own == pytest.approx(stepped(1.0, 2.0, 0.5, sigmoid(1.0) - 1)[0])
    assert other == pytest.approx(stepped(0.5, 3.0, 0.5, sigmoid(0.75) - 1)[0])


def test_the_server_averages_small_models_alike_and_leaves_the_others_at_home() -> None:
    clients = [make([1.0], [2.0], [0.5]), make([7.0], [7.0], [1.0]), make([1.0], [1.0], [2.0, 2.0, 2.0])]
    server, held = run(clients, [[0, 2]], 0.5, 1.0)
    slopes = [(sigmoid(1.5 * x) - 1) * x for x in (0.5, 2.0)]
    assert server["small_body.w"].item() == pytest.approx(0.5 - 3 * sum(slopes) / 2)
    assert server["small_head.v"].item() == pytest.approx(3 - 0.5 * sum(slopes) / 2)
    assert held[1] == {"body.w": vector(7.0), "head.v": vector(7.0)}  # never selected


def test_every_round_starts_from_the_average_and_the_own_model() -> None:
    clients = [make([1.0], [2.0], [0.5]), make([1.0], [1.0], [2.0])]
    server, held = run(clients, [[0, 1], [1]], 0.5, 0.5)
    again = [make([1.0], [2.0], [0.5]), make([1.0], [1.0], [2.0])]
    middle, before = run(again, [[0, 1]], 0.5, 0.5)
    a, b = middle["small_body.w"].item(), middle["small_head.v"].item()
    w, v = before[1]["body.w"].item(), before[1]["head.v"].item()
    s_own, s_small = sigmoid(w * v * 2), sigmoid(a * b * 2)
    w, v = stepped(w, v, 2.0, s_own - 0.5 - 0.5 * s_small)
    a, b = stepped(a, b, 2.0, s_small - 0.5 - 0.5 * s_own)
    assert held[1]["body.w"].item() == pytest.approx(w)
    assert server["small_head.v"].item() == pytest.approx(b)
    assert held[0]["small_body.w"].item() == before[0]["small_body.w"].item()


def test_each_model_is_a_group_of_its_own() -> None:
    rules = (Rule(1.0, clip_norm=0.01), Rule(0.5, weight_decay=0.1))
    _, (held,) = fml(
        [make([1.0], [2.0], [0.5])],
        [[0]],
        first(1),
        rules[0],
        small_body,
        small_head,
        small(0.5, 3.0),
        1.0,
        1.0,
        rules[1],
    )
    dz = sigmoid(1.0) - 1
    norm = abs(dz) * 0.5 * 5**0.5
    assert held["body.w"].item() == pytest.approx(1 - dz * 0.5 * 2 * 0.01 / (norm + 1e-6), abs=1e-15)
    assert held["head.v"].item() == pytest.approx(2 - dz * 0.5 * 1 * 0.01 / (norm + 1e-6), abs=1e-15)
    dz = sigmoid(0.75) - 1
    assert held["small_body.w"].item() == pytest.approx(0.5 - 0.5 * (dz * 0.5 * 3 + 0.1 * 0.5))
    assert held["small_head.v"].item() == pytest.approx(3 - 0.5 * (dz * 0.5 * 0.5 + 0.1 * 3))


def test_without_training_nothing_changes() -> None:
    clients = [make([1.0], [2.0], [0.5])]
    server, (held,) = fml(clients, [[0]], none, Rule(1.0), small_body, small_head, small(0.5, 3.0), 0.5, 0.5)
    assert (server["small_body.w"].item(), held["body.w"].item(), held["small_head.v"].item()) == (0.5, 1.0, 3.0)
