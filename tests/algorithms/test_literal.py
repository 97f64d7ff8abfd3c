"""The transcription itself, on cases small enough to work out by hand.

Every model here has one number w and gives the logits (w * x, 0); the extractor has one number and gives theta * x.
For a sample of class 0 the loss is log(1 + exp(-w * x)). With s = sigmoid(w * x) its derivative by w is -x * (1 - s),
and s = 1/2 where w = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from .literal import (
    Params,
    Rule,
    aggregate,
    cross_entropy,
    descend,
    fedavg,
    pfedes,
    pfedes_simultaneous,
)
from .tiny import make, miss, number, one_by_one

Pfedes = Callable[..., tuple[Params, list[Params]]]


def scale(theta: Params, x: Tensor) -> Tensor:
    return theta["a"] * x


def test_cross_entropy_is_the_mean_over_the_batch() -> None:
    logits = torch.tensor([[math.log(3), 0.0], [5.0, 5.0]], dtype=torch.float64)
    loss = cross_entropy(logits, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)


def test_cross_entropy_of_large_logits_is_finite() -> None:
    logits = torch.tensor([[1000.0, 0.0]], dtype=torch.float64)
    assert cross_entropy(logits, torch.tensor([1])).item() == pytest.approx(1000)


def test_first_step_is_plain_descent_and_the_second_adds_momentum() -> None:
    rule = Rule(0.1, momentum=0.9)
    params, v = descend(rule, number("w", 1.0), number("w", 2.0), None)
    assert params["w"].item() == pytest.approx(0.8)
    params, v = descend(rule, params, number("w", 1.0), v)
    assert v["w"].item() == pytest.approx(2.8)
    assert params["w"].item() == pytest.approx(0.52)


def test_clipping_takes_the_norm_of_the_whole_group_and_comes_before_weight_decay() -> None:
    params = {**number("w", 1.0), **number("b", 0.0)}
    g = {**number("w", 3.0), **number("b", 4.0)}
    after, _ = descend(Rule(1.0, weight_decay=0.5, clip_norm=1.0), params, g, None)
    assert after["w"].item() == pytest.approx(1 - (3 / 5.000001 + 0.5), abs=1e-15)
    assert after["b"].item() == pytest.approx(-4 / 5.000001, abs=1e-15)


def test_a_gradient_within_the_norm_is_not_clipped() -> None:
    after, _ = descend(Rule(1.0, clip_norm=10.0), number("w", 0.0), number("w", 3.0), None)
    assert after["w"].item() == -3.0


def test_weights_are_over_the_uploads_alone() -> None:
    average = aggregate({0: number("w", 4.0), 2: number("w", 8.0)}, {0: 1, 1: 100, 2: 3})
    assert average["w"].item() == 7.0


def test_fedavg_round_by_hand() -> None:
    clients = [make(7.0, 1.0), make(7.0, 1.0), make(7.0, 2.0, 4.0, 6.0)]
    whole: dict[int, list[list[int]]] = {0: [[0]], 2: [[0, 1, 2]]}
    omega, held = fedavg(clients, [[2, 0]], lambda _t, k, _phase: whole[k], Rule(1.0), number("w", 0.0))
    assert held[0]["w"].item() == pytest.approx(0.5)  # 0 + 1/2 * 1
    assert held[1]["w"].item() == 7.0  # never selected: as given
    assert held[2]["w"].item() == pytest.approx(2.0)  # 0 + 1/2 * mean(2, 4, 6)
    assert omega["w"].item() == pytest.approx((1 * 0.5 + 3 * 2.0) / 4)


def test_fedavg_starts_every_round_from_the_global_model() -> None:
    clients = [make(0.0, 1.0), make(0.0, 3.0)]
    omega, held = fedavg(clients, [[0, 1], [0]], one_by_one(1), Rule(1.0), number("w", 0.0))
    first = (0.5 + 1.5) / 2
    assert held[0]["w"].item() == pytest.approx(first + miss(first))
    assert held[1]["w"].item() == pytest.approx(1.5)  # what it trained in round 1
    assert omega["w"].item() == held[0]["w"].item()


def test_fedavg_forgets_momentum_between_rounds_but_not_between_batches() -> None:
    def run(rounds: int, steps: int, momentum: float) -> float:
        rule = Rule(1.0, momentum=momentum)
        omega, _ = fedavg([make(0.0, 1.0)], [[0]] * rounds, one_by_one(steps), rule, number("w", 0.0))
        return omega["w"].item()

    assert run(3, 1, 0.9) == run(3, 1, 0.0)
    assert run(1, 2, 0.9) == pytest.approx(0.5 + (0.9 * 0.5 + miss(0.5)))


def test_pfedes_round_by_hand() -> None:
    theta, (omega,) = pfedes([make(0.0, 1.0)], [[0]], one_by_one(1), Rule(1.0), scale, number("a", 2.0), 0.25)
    w = 0.25 * 2 / 2 + 0.75 * 1 / 2  # (6) and (7): x_hat = 2, x = 1, both derivatives at w = 0
    assert omega["w"].item() == pytest.approx(w)
    # (10), at the model that (7) left; the derivative of log(1 + exp(-w a)) by a is -w (1 - s)
    assert theta["a"].item() == pytest.approx(2 + w * miss(2 * w))


def test_pfedes_freezes_one_while_it_trains_the_other() -> None:
    rules = (Rule(1.0, momentum=0.5), Rule(0.1, momentum=0.25))
    theta, (omega,) = pfedes(
        [make(0.0, 1.0)], [[0]], one_by_one(2), rules[0], scale, number("a", 2.0), 0.25, extractor_rule=rules[1]
    )
    v = 0.625
    w = v
    v = 0.5 * v + 0.25 * 2 * miss(2 * w) + 0.75 * miss(w)
    w += v
    assert omega["w"].item() == pytest.approx(w)
    u = w * miss(2 * w)  # a fresh buffer in phase 1
    a = 2 + 0.1 * u
    u = 0.25 * u + w * miss(a * w)
    a += 0.1 * u
    assert theta["a"].item() == pytest.approx(a)


def test_pfedes_keeps_models_at_home_and_averages_extractors() -> None:
    clients = [make(0.0, 1.0), make(5.0, 1.0), make(0.0, 2.0, 2.0, 2.0)]
    theta, omegas = pfedes(clients, [[0, 2]], one_by_one(1), Rule(1.0), scale, number("a", 2.0), 0.5)
    w_0, w_2 = 0.75, 1.5
    assert [omega["w"].item() for omega in omegas] == pytest.approx([w_0, 5.0, w_2])
    a_0 = 2 + w_0 * miss(2 * w_0)
    a_2 = 2 + 2 * w_2 * miss(4 * w_2)
    assert theta["a"].item() == pytest.approx((1 * a_0 + 3 * a_2) / 4)


def test_pfedes_continues_with_its_own_model_and_the_averaged_extractor() -> None:
    theta, omegas = pfedes([make(0.0, 1.0)], [[0], [], [0]], one_by_one(1), Rule(1.0), scale, number("a", 2.0), 0.25)
    w = 0.625
    a = 2 + w * miss(2 * w)
    w += 0.25 * a * miss(a * w) + 0.75 * miss(w)
    a += w * miss(a * w)
    assert omegas[0]["w"].item() == pytest.approx(w)
    assert theta["a"].item() == pytest.approx(a)


def test_simultaneous_takes_both_gradients_before_either_step() -> None:
    theta, (omega,) = pfedes_simultaneous(
        [make(1.0, 1.0)], [[0]], one_by_one(2), Rule(1.0), scale, number("a", 2.0), 0.25, extractor_rule=Rule(0.5)
    )
    w, a = 1.0, 2.0
    for _ in range(2):
        step_w = 0.25 * a * miss(a * w) + 0.75 * miss(w)
        step_a = 0.25 * w * miss(a * w)  # equation 6 weighs what reaches G by mu, unlike equation 9
        w, a = w + step_w, a + 0.5 * step_a
    assert omega["w"].item() == pytest.approx(w)
    assert theta["a"].item() == pytest.approx(a)


def test_simultaneous_clips_each_group_by_its_own_norm() -> None:
    theta, (omega,) = pfedes_simultaneous(
        [make(1.0, 1.0)], [[0]], one_by_one(1), Rule(1.0, clip_norm=0.1), scale, number("a", 1.0), 0.5
    )
    g_w, g_a = miss(1.0), 0.5 * miss(1.0)  # both above the bound
    assert omega["w"].item() == pytest.approx(1 + g_w * 0.1 / (g_w + 1e-6), abs=1e-15)
    assert theta["a"].item() == pytest.approx(1 + g_a * 0.1 / (g_a + 1e-6), abs=1e-15)


@pytest.mark.parametrize(("algorithm", "phases"), [(pfedes, [0, 1]), (pfedes_simultaneous, [0])])
def test_rounds_count_from_one_and_phases_from_zero(algorithm: Pfedes, phases: list[int]) -> None:
    asked: list[tuple[int, int, int]] = []

    def batches(t: int, k: int, phase: int) -> list[list[int]]:
        asked.append((t, k, phase))
        return [[0]]

    algorithm([make(0.0, 1.0), make(0.0, 1.0)], [[1], [0, 1]], batches, Rule(1.0), scale, number("a", 2.0), 0.5)
    assert asked == [(t, k, phase) for t, k in [(1, 1), (2, 0), (2, 1)] for phase in phases]


@pytest.mark.parametrize("algorithm", [pfedes, pfedes_simultaneous])
def test_the_order_within_a_cohort_does_not_matter(algorithm: Pfedes) -> None:
    def run(cohort: list[int]) -> list[float]:
        clients = [make(0.0, 1.0), make(0.5, 2.0, 3.0), make(1.0, -1.0)]
        rule = Rule(1.0, momentum=0.9, weight_decay=0.1)
        theta, omegas = algorithm(clients, [cohort] * 2, one_by_one(2), rule, scale, number("a", 2.0), 0.5)
        return [theta["a"].item(), *(omega["w"].item() for omega in omegas)]

    assert run([0, 1, 2]) == pytest.approx(run([2, 0, 1]), abs=1e-14)


@pytest.mark.parametrize("algorithm", [pfedes, pfedes_simultaneous])
def test_what_was_given_is_left_alone(algorithm: Pfedes) -> None:
    client = make(0.0, 1.0)
    given, theta = client.params, number("a", 2.0)
    _, (omega,) = algorithm([client], [[0]], one_by_one(1), Rule(1.0), scale, theta, 0.5)
    assert given["w"].item() == 0.0
    assert theta["a"].item() == 2.0
    assert client.params["w"].item() == omega["w"].item() != 0.0


def test_single_precision_is_refused() -> None:
    with pytest.raises(TypeError, match="float64"):
        fedavg([make(0.0, 1.0)], [[0]], one_by_one(1), Rule(1.0), {"w": torch.zeros(())})


def test_nobody_is_selected_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        fedavg([make(0.0, 1.0)], [[0, 0]], one_by_one(1), Rule(1.0), number("w", 0.0))
