"""The transcription of pFedAFM, on the model of three numbers (see ``tiny``); G gives g * x, and alpha is one number a.

Of a sample x of class 0 the first logit is z = h * r + c with r = (1 - a) * g * x + a * b * x, and the loss has the
derivatives -(1 - s) times h * a * x by b, r by h, 1 by c, h * (b - g) * x by a and h * (1 - a) * x by g.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import pytest
import torch

from .literal import MixedClient, Params, PartedClient, Rule, lgfedavg, mixed_logits, pfedafm
from .tiny import body, miss, number, numbers, one_by_one, parted, values


def mixed(client: PartedClient, a: float | None = None) -> MixedClient:
    parts = {field.name: getattr(client, field.name) for field in dataclasses.fields(client)}
    if a is not None:
        parts["params"] = {**client.params, "mixer.weight": torch.tensor([a], dtype=torch.float64)}
    return MixedClient(**parts, extractor=body)


def g_is(g: float) -> Params:
    return number("extractor.g", g)


@dataclasses.dataclass
class Hand:
    """The numbers of a client, and a step of each kind on a sample x of class 0."""

    b: float
    h: float
    c: float
    a: float
    g: float

    def mixed_step(self, x: float, rate: float, mixer_rate: float, extractor_rate: float = 0.0) -> None:
        b, h, c, a, g = self.b, self.h, self.c, self.a, self.g
        r = (1 - a) * g * x + a * b * x
        m = miss(h * r + c)
        self.b, self.h, self.c = b + rate * m * h * a * x, h + rate * m * r, c + rate * m
        self.a += mixer_rate * m * h * (b - g) * x
        self.g += extractor_rate * m * h * (1 - a) * x

    def extractor_step(self, x: float, rate: float) -> None:
        self.g += rate * miss(self.h * self.g * x + self.c) * self.h * x

    def named(self) -> dict[str, float]:
        return {"body.b": self.b, "head.h": self.h, "head.c": self.c, "mixer.weight": self.a, "extractor.g": self.g}


def test_representations_are_mixed_dimension_by_dimension() -> None:
    client = mixed(parted(1.0, 1.0, 0.0, 1.0))
    client.body = lambda _params, x: torch.stack([x, 10 * x], dim=1)
    client.extractor = lambda theta, x: torch.stack([theta["extractor.g"] * x, -x], dim=1)
    client.head = lambda _params, r: r
    params = {"mixer.weight": torch.tensor([0.25, 2.0], dtype=torch.float64)}
    logits = mixed_logits(client, params, g_is(5.0), torch.tensor([1.0, 2.0], dtype=torch.float64))
    first = [0.75 * 5 + 0.25 * 1, (1 - 2) * -1 + 2 * 10]
    assert logits.tolist() == [first, [2 * value for value in first]]


def test_a_round_by_hand() -> None:
    client = mixed(parted(1.0, 0.5, 0.1, 1.5), a=0.75)
    server, (held,) = pfedafm([client], [[0]], one_by_one(2), Rule(1.0), Rule(0.3), g_is(2.0), Rule(0.2))
    hand = Hand(1.0, 0.5, 0.1, 0.75, 2.0)
    for _ in range(2):
        hand.mixed_step(1.5, 1.0, 0.3)
    for _ in range(2):
        hand.extractor_step(1.5, 0.2)  # with the head that the steps before left
    assert values(held) == pytest.approx(hand.named())
    assert values(server) == pytest.approx({"extractor.g": hand.g})


def test_alpha_starts_at_one_and_g_counts_from_the_second_step_on() -> None:
    def run(g: float, steps: int) -> dict[str, float]:
        client = mixed(parted(1.0, 0.5, 0.1, 1.0))
        _, (held,) = pfedafm([client], [[0]], one_by_one(steps), Rule(1.0), Rule(0.5), g_is(g))
        return values(held)

    hand = Hand(1.0, 0.5, 0.1, 1.0, 2.0)
    hand.mixed_step(1.0, 1.0, 0.5)
    hand.extractor_step(1.0, 1.0)  # its rate is that of the model unless told
    assert run(2.0, 1) == pytest.approx(hand.named())
    assert run(2.0, 1)["body.b"] == run(-2.0, 1)["body.b"]
    assert run(2.0, 2)["body.b"] != run(-2.0, 2)["body.b"]


def test_rounds_of_several_clients() -> None:
    clients = [
        mixed(parted(1.0, 0.5, 0.1, 1.0)),
        mixed(parted(3.0, 1.0, 0.0, 1.0)),
        mixed(parted(-1.0, 2.0, 0.0, 2.0, 2.0, 2.0)),
    ]
    cohorts: list[list[int]] = [[2, 0], [], [0]]
    server, held = pfedafm(clients, cohorts, one_by_one(1), Rule(0.5), Rule(0.3), g_is(2.0))
    first, last = Hand(1.0, 0.5, 0.1, 1.0, 2.0), Hand(-1.0, 2.0, 0.0, 1.0, 2.0)
    first.mixed_step(1.0, 0.5, 0.3)
    first.extractor_step(1.0, 0.5)
    last.mixed_step(2.0, 0.5, 0.3)
    last.extractor_step(2.0, 0.5)
    first.g = (1 * first.g + 3 * last.g) / 4
    first.mixed_step(1.0, 0.5, 0.3)  # its own alpha, the averaged G
    first.extractor_step(1.0, 0.5)
    assert values(held[0]) == pytest.approx(first.named())
    assert values(held[2]) == pytest.approx(last.named())
    assert values(held[1]) == {"body.b": 3.0, "head.h": 1.0, "head.c": 0.0, "mixer.weight": 1.0}
    assert values(server) == pytest.approx({"extractor.g": first.g})


@pytest.mark.parametrize("training", ["iterative", "end-to-end"])
def test_the_last_client_of_the_cohort_hands_its_extractor_on(training: Literal["iterative", "end-to-end"]) -> None:
    clients = [mixed(parted(1.0, 0.5, 0.1, float(x)), a=0.5) for x in (1, 2, 3)]
    server, held = pfedafm(
        clients,
        [[2, 0, 1], [1, 0]],
        one_by_one(1),
        Rule(0.5),
        Rule(0.3),
        g_is(2.0),
        training=training,
        aggregation="last",
    )
    g = {k: values(held[k])["extractor.g"] for k in range(3)}
    assert values(server)["extractor.g"] == g[1]
    assert len(set(g.values())) == 3


def test_end_to_end_takes_all_gradients_before_any_step() -> None:
    asked = []

    def batches(t: int, k: int, phase: int) -> list[list[int]]:
        asked.append((t, k, phase))
        return [[0]] * 2

    clients = [mixed(parted(1.0, 0.5, 0.1, 1.5), a=0.75)]
    server, (held,) = pfedafm(
        clients, [[0]], batches, Rule(1.0), Rule(0.3), g_is(2.0), Rule(0.2), training="end-to-end"
    )
    hand = Hand(1.0, 0.5, 0.1, 0.75, 2.0)
    for _ in range(2):
        hand.mixed_step(1.5, 1.0, 0.3, extractor_rate=0.2)
    assert values(held) == pytest.approx(hand.named())
    assert values(server) == pytest.approx({"extractor.g": hand.g})
    assert asked == [(1, 0, 0)]


def test_rounds_count_from_one_and_phases_from_zero() -> None:
    asked = []

    def batches(t: int, k: int, phase: int) -> list[list[int]]:
        asked.append((t, k, phase))
        return [[0]]

    clients = [mixed(parted(1.0, 0.5, 0.1, 1.0)), mixed(parted(1.0, 0.5, 0.1, 1.0))]
    pfedafm(clients, [[1], [1, 0]], batches, Rule(1.0), Rule(0.3), g_is(2.0))
    assert asked == [(t, k, phase) for t, k in [(1, 1), (2, 0), (2, 1)] for phase in (0, 1)]


@pytest.mark.parametrize(("b", "bound"), [(5.0, 1.0), (-5.0, 0.0)])
def test_alpha_is_kept_between_zero_and_one_only_if_told(b: float, bound: float) -> None:
    def alpha(clamp: bool, steps: int) -> float:
        client = mixed(parted(b, 1.0, 0.0, 0.1), a=0.5)
        _, (held,) = pfedafm([client], [[0]], one_by_one(steps), Rule(0.0), Rule(5.0), g_is(0.0), clamp=clamp)
        return values(held)["mixer.weight"]

    assert alpha(True, 1) == bound
    free = 0.5 + 5 * miss(0.05 * b) * 0.1 * b
    assert alpha(False, 1) == pytest.approx(free)
    assert abs(free - 0.5) > 0.5
    assert alpha(True, 3) == bound != alpha(False, 3)


def test_the_projection_comes_after_each_step_and_leaves_the_momentum() -> None:
    client = mixed(parted(5.0, 1.0, 0.0, 0.1, -0.1))
    batches = {0: [[0], [1]], 1: []}
    rules = (Rule(0.0), Rule(1.0, momentum=0.5))
    _, (held,) = pfedafm([client], [[0]], lambda _t, _k, phase: batches[phase], *rules, g_is(0.0), clamp=True)
    # the first step goes up from 1 and is undone; the second goes down, from 1 and against half of the first
    v = 0.5 * -miss(0.5) * 0.5 + miss(-0.5) * 0.5
    assert values(held)["mixer.weight"] == pytest.approx(1 - v)


@pytest.mark.parametrize("training", ["iterative", "end-to-end"])
def test_every_group_is_clipped_by_its_own_norm(training: Literal["iterative", "end-to-end"]) -> None:
    client = mixed(parted(1.0, 0.5, 0.0, 1.0), a=0.5)
    rules = (Rule(1.0, clip_norm=0.1), Rule(1.0, clip_norm=0.01), g_is(2.0), Rule(1.0, clip_norm=0.001))
    _, (held,) = pfedafm([client], [[0]], one_by_one(1), *rules, training=training)
    r = 0.5 * 2.0 + 0.5 * 1.0
    by_b, by_h, by_c = 0.5 * 0.5, r, 1.0
    norm = (by_b**2 + by_h**2 + by_c**2) ** 0.5
    expected = {
        "body.b": 1.0 + 0.1 * by_b / norm,
        "head.h": 0.5 + 0.1 * by_h / norm,
        "head.c": 0.1 * by_c / norm,
        "mixer.weight": 0.5 - 0.01,  # by 0.5 * (1 - 2), downwards
        "extractor.g": 2.0 + 0.001,
    }
    assert values(held) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("training", ["iterative", "end-to-end"])
def test_momentum_lasts_for_one_phase(training: Literal["iterative", "end-to-end"]) -> None:
    def run(steps: int, momentum: float) -> dict[str, float]:
        rules = [Rule(rate, momentum=momentum) for rate in (0.5, 0.3, 0.2)]
        client = mixed(parted(1.0, 0.5, 0.1, 1.0), a=0.5)
        _, (held,) = pfedafm(
            [client], [[0]] * 3, one_by_one(steps), rules[0], rules[1], g_is(2.0), rules[2], training=training
        )
        return values(held)

    assert run(1, 0.9) == run(1, 0.0)
    with_momentum, without = run(2, 0.9), run(2, 0.0)
    assert all(with_momentum[name] != without[name] for name in without)


def test_without_a_step_of_alpha_the_model_trains_alone() -> None:
    """With alpha at 1 for ever F_k never sees G: the same as training by the cross-entropy."""
    rule = Rule(0.5, momentum=0.9, weight_decay=0.1)
    client = mixed(parted(1.0, 0.5, 0.1, 1.0, -2.0, y=[0, 1]))
    _, (held,) = pfedafm([client], [[0]], lambda *_: [[0, 1], [1]], rule, Rule(0.0), g_is(2.0))
    alone = parted(1.0, 0.5, 0.1, 1.0, -2.0, y=[0, 1])
    _, (expected,) = lgfedavg([alone], [[0]], lambda *_: [[0, 1], [1]], rule, numbers(head_h=0.5, head_c=0.1))
    assert values(held).items() > values(expected).items()
    assert values(held)["extractor.g"] != 2.0


def test_what_was_given_is_left_alone() -> None:
    client, theta = mixed(parted(1.0, 0.5, 0.1, 1.0)), g_is(2.0)
    given = client.params
    pfedafm([client], [[0]], one_by_one(1), Rule(1.0), Rule(1.0), theta)
    assert values(given) == {"body.b": 1.0, "head.h": 0.5, "head.c": 0.1}
    assert values(theta) == {"extractor.g": 2.0}
