"""FedAPEN's transcription, by hand."""

from __future__ import annotations

import pytest
import torch

from .literal import Params, PartedClient, Rule, fedapen, fedapen_predict
from .parted_toys import first, make, none, sigmoid, small, small_body, small_head, stepped, vector


def holding(client: PartedClient, xs: list[float], ys: list[int] | None = None) -> PartedClient:
    client.holdout_x, client.holdout_y = vector(*xs), torch.tensor([0] * len(xs) if ys is None else ys)
    return client


def only_adapting(count: int, t: int, phase: int) -> list[list[int]]:
    return [[0]] * count if (t, phase) == (2, 0) else []


def weight_after(
    label: int, learning_rate: float, count: int = 1, cohorts: list[list[int]] | None = None
) -> tuple[float, Params]:
    """Of a client with z_p = 2 and z_s = -1 for its held-out sample, none of which is trained."""
    client = holding(make([1.0], [2.0], [5.0]), [1.0], [label])
    _, (held,) = fedapen(
        [client],
        [[0], [0]] if cohorts is None else cohorts,
        lambda t, _k, phase: only_adapting(count, t, phase),
        Rule(1.0, momentum=0.9, weight_decay=0.5, clip_norm=1e-3),
        small_body,
        small_head,
        small(1.0, -1.0),
        learning_rate,
    )
    return held["ensemble.weight"].item(), held


def test_a_round_by_hand_with_one_client_alone() -> None:
    server, (held,) = fedapen(
        [make([1.0], [2.0], [0.5])],
        [[0]],
        first(2),
        Rule(1.0),
        small_body,
        small_head,
        small(0.5, 3.0),
        0.1,
        start=0.25,
    )
    w, v, a, b = 1.0, 2.0, 0.5, 3.0
    for _ in range(2):
        z_p, z_s = w * v * 0.5, a * b * 0.5
        s_p, s_s, s_both = sigmoid(z_p), sigmoid(z_s), sigmoid(0.25 * z_p + 0.75 * z_s)
        w, v = stepped(w, v, 0.5, (s_p - 1) + (s_p - s_s) + 0.25 * (s_both - 1))
        a, b = stepped(a, b, 0.5, (s_s - 1) + (s_s - s_p) + 0.75 * (s_both - 1))
    assert [held["body.w"].item(), held["head.v"].item()] == pytest.approx([w, v])
    assert [held["small_body.w"].item(), held["small_head.v"].item()] == pytest.approx([a, b])
    assert [server["small_body.w"].item(), server["small_head.v"].item()] == pytest.approx([a, b])
    assert held["ensemble.weight"].item() == 0.25
    assert held["ensemble.weight"].shape == ()
    assert list(server) == ["small_body.w", "small_head.v"]


def test_the_weight_starts_at_one_half() -> None:
    clients = [make([1.0], [2.0], [0.5]), make([1.0], [2.0], [0.5])]
    _, held = fedapen(clients, [[0]], first(1), Rule(1.0), small_body, small_head, small(0.5, 3.0), 0.1)
    assert [params["ensemble.weight"].item() for params in held] == [0.5, 0.5]  # the second was never selected


def test_the_weight_learns_by_plain_descent() -> None:
    w = 0.5
    for _ in range(2):
        w -= 0.1 * (sigmoid(2 * w - (1 - w)) - 1) * 3
    after, held = weight_after(0, 0.1, count=2)
    assert after == pytest.approx(w)
    assert (held["body.w"].item(), held["small_head.v"].item()) == (1.0, -1.0)  # both models are constants


@pytest.mark.parametrize(("label", "bound"), [(0, 1.0), (1, 0.0)])
def test_the_weight_is_put_back_after_each_step(label: int, bound: float) -> None:
    assert weight_after(label, 100.0)[0] == bound
    z = 3 * bound - 1  # the second step starts from the bound
    slope = (sigmoid(z) - (1 - label)) * 3
    assert weight_after(label, 100.0, count=2)[0] == min(1.0, max(0.0, bound - 100 * slope)) == bound


def test_whoever_joins_in_round_2_adapts_and_nobody_in_round_1() -> None:
    assert weight_after(0, 0.1)[0] == weight_after(0, 0.1, cohorts=[[], [0]])[0] != 0.5
    assert weight_after(0, 0.1, cohorts=[[0]])[0] == 0.5


def test_adapting_takes_the_held_out_data_and_the_average_before_training() -> None:
    asked: list[tuple[int, int, int]] = []

    def batches(t: int, k: int, phase: int) -> list[list[int]]:
        asked.append((t, k, phase))
        return [[1]] if (t, phase) == (2, 0) else [[0]]  # there is no second training sample

    clients = [holding(make([1.0], [2.0], [0.5]), [9.0, 2.0]), make([1.0], [1.0], [2.0])]
    _, held = fedapen(clients, [[0, 1], [0]], batches, Rule(0.1), small_body, small_head, small(0.5, 3.0), 0.1)
    assert asked == [(1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 0, 1)]

    again = [make([1.0], [2.0], [0.5]), make([1.0], [1.0], [2.0])]
    server, before = fedapen(again, [[0, 1]], first(1), Rule(0.1), small_body, small_head, small(0.5, 3.0), 0.1)
    w, v = before[0]["body.w"].item(), before[0]["head.v"].item()
    a, b = server["small_body.w"].item(), server["small_head.v"].item()
    z_p, z_s = w * v * 2, a * b * 2
    weight = 0.5 - 0.1 * (sigmoid(0.5 * z_p + 0.5 * z_s) - 1) * (z_p - z_s)
    assert held[0]["ensemble.weight"].item() == pytest.approx(weight)
    z_p, z_s = w * v * 0.5, a * b * 0.5
    both = sigmoid(weight * z_p + (1 - weight) * z_s)
    dz = (sigmoid(z_p) - 1) + (sigmoid(z_p) - sigmoid(z_s)) + weight * (both - 1)
    assert held[0]["body.w"].item() == pytest.approx(stepped(w, v, 0.5, dz, 0.1)[0])
    assert held[1]["ensemble.weight"].item() == 0.5


def test_small_models_count_alike() -> None:
    clients = [make([1.0], [2.0], [0.5]), make([1.0], [1.0], [2.0, 2.0, 2.0])]
    server, held = fedapen(clients, [[0, 1]], first(1), Rule(0.1), small_body, small_head, small(0.5, 3.0), 0.1)
    mean = (held[0]["small_body.w"].item() + held[1]["small_body.w"].item()) / 2
    assert server["small_body.w"].item() == pytest.approx(mean)


def test_prediction_is_by_the_small_model_as_received() -> None:
    client = make([1.0], [2.0], [0.5])
    held = {**client.params, **small(9.0, 9.0), "ensemble.weight": torch.tensor(0.25, dtype=torch.float64)}
    logits = fedapen_predict(client, held, small_body, small_head, small(0.5, 3.0), vector(1.0, 2.0))
    assert logits.tolist() == [[0.25 * 2 + 0.75 * 1.5, 0.0], [0.25 * 4 + 0.75 * 3, 0.0]]


def test_held_out_data_are_not_trained_on() -> None:
    def body_after(xs: list[float]) -> float:
        client = holding(make([1.0], [2.0], [0.5]), xs)
        _, (held,) = fedapen([client], [[0]], first(1), Rule(0.1), small_body, small_head, small(0.5, 3.0), 0.1)
        return held["body.w"].item()

    assert body_after([1.0]) == body_after([2.0])


def test_without_batches_nothing_changes() -> None:
    _, (held,) = fedapen(
        [make([1.0], [2.0], [0.5])], [[0], [0]], none, Rule(1.0), small_body, small_head, small(0.5, 3.0), 0.1
    )
    assert (held["body.w"].item(), held["small_body.w"].item(), held["ensemble.weight"].item()) == (1.0, 0.5, 0.5)
