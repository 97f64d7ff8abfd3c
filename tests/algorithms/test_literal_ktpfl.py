"""KT-pFL's transcription, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from .literal import Params, Rule, ktpfl
from .literal.ktpfl import coefficients_after, soft_predictions
from .parted_toys import first, make, none, sigmoid, stepped, vector


def public_only(t: int, _client: int, phase: int) -> list[list[int]]:
    return [[0]] if phase == 0 else []


def own_only(t: int, _client: int, phase: int) -> list[list[int]]:
    return [[0]] if phase == 1 else []


def soft_of(*values: float) -> list[Tensor]:
    return [torch.tensor([[p, 1 - p]], dtype=torch.float64) for p in values]


def test_logits_are_divided_by_the_temperature() -> None:
    client = make([1.0], [2.0], [1.0])
    soft = soft_predictions(client, client.params, vector(1.0, -3.0), 10.0)
    assert soft[:, 0].tolist() == pytest.approx([sigmoid(0.2), sigmoid(-0.6)])


def test_enrolment_is_of_everyone_and_without_training() -> None:
    clients = [make([1.0], [2.0], [1.0]), make([3.0], [1.0], [1.0])]
    server, held = ktpfl(clients, vector(1.0, -3.0), [], first(1), Rule(1.0), 5, 1.0, 0.5)
    assert server["soft"][:, :, 0].tolist() == [
        pytest.approx([sigmoid(0.2), sigmoid(-0.6)]),
        pytest.approx([sigmoid(0.3), sigmoid(-0.9)]),
    ]
    assert server["coefficients"].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert held[0]["body.w"].item() == 1.0


def test_a_round_by_hand() -> None:
    clients = [make([1.0], [2.0], [0.5]), make([3.0], [1.0], [1.0])]
    server, held = ktpfl(clients, vector(1.0, -3.0), [[0]], first(1), Rule(1.0), 0, 1.0, 0.5, 4.0, Rule(0.5))
    target = (sigmoid(0.5) + sigmoid(0.75)) / 2
    w, v = stepped(1.0, 2.0, 1.0, (sigmoid(0.5) - target) / 4, 0.5)
    w, v = stepped(w, v, 0.5, sigmoid(w * v * 0.5) - 1)
    assert [held[0]["body.w"].item(), held[0]["head.v"].item()] == pytest.approx([w, v])
    assert server["soft"][0, :, 0].tolist() == pytest.approx([sigmoid(w * v / 4), sigmoid(-3 * w * v / 4)])
    # Client 1 was never selected: it taught by its initial model and stays as it was.
    assert held[1]["body.w"].item() == 3.0
    assert server["soft"][1, 0, 0].item() == pytest.approx(sigmoid(0.75))
    assert server["coefficients"][1].tolist() == [0.5, 0.5]


def test_distillation_is_a_mean_over_the_batch_at_those_positions() -> None:
    clients = [make([1.0], [2.0], [0.5]), make([3.0], [1.0], [1.0])]
    public = vector(9.0, 1.0, 9.0, -3.0)
    _, held = ktpfl(
        clients, public, [[0]], lambda _t, _k, phase: [[3, 1]] if phase == 0 else [], Rule(1.0), 0, 1.0, 0.5, 4.0
    )
    slope = 0.0
    for x in (1.0, -3.0):
        own, other = sigmoid(2 * x / 4), sigmoid(3 * x / 4)
        slope += (own - (own + other) / 2) / 4 * x / 2
    assert held[0]["body.w"].item() == pytest.approx(1 - 2 * slope)


def test_coefficients_by_hand() -> None:
    a, b, eta, rho = 0.9, 0.3, 0.5, 0.4
    c = [0.5, 0.5]
    for _ in range(2):
        mix = c[0] * a + c[1] * b
        # the two classes are off by a - mix and mix - a, and dmix/dc_l is p_l for the one, 1 - p_l for the other
        slopes = [-(a - mix) * (2 * p - 1) + rho * (c_l - 0.5) for p, c_l in zip((a, b), c, strict=True)]
        c = [c_l - eta * slope for c_l, slope in zip(c, slopes, strict=True)]
        c = [c_l / sum(c) for c_l in c]
    row = coefficients_after(0, vector(0.5, 0.5), soft_of(a, b), 2, eta, rho)
    assert row.tolist() == pytest.approx(c)
    assert c[0] > 0.5  # who predicts alike counts for more


def test_the_slope_is_the_derivative() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, 5, dtype=torch.float64, generator=generator)
    soft = torch.softmax(logits, dim=2)
    c = vector(0.5, 0.3, 0.2).requires_grad_()
    off = soft[1] - (c[:, None, None] * soft).sum(dim=0)
    loss = (off**2).mean() + 0.7 * ((c - 1 / 3) ** 2).mean()
    (g,) = torch.autograd.grad(loss, c)
    expected = (c - 0.5 * g).detach()
    row = coefficients_after(1, c.detach(), list(soft), 1, 0.5, 0.7)
    assert torch.allclose(row, expected / expected.sum(), rtol=0, atol=1e-15)


def test_each_step_clips_at_zero_and_divides_by_the_sum() -> None:
    # the mixture is .6; slopes -(.3)(.8) and -(.3)(-.4), so that a step of 10 leads to 2.9 and -.7
    row = coefficients_after(0, vector(0.5, 0.5), soft_of(0.9, 0.3), 1, 10.0, 0.0)
    assert row.tolist() == [1.0, 0.0]
    # from (1, 0) only rho leads back: slopes rho * (.5, -.5)
    row = coefficients_after(0, vector(0.5, 0.5), soft_of(0.9, 0.3), 2, 10.0, 0.02)
    assert row.tolist() == pytest.approx([0.9, 0.1])


def test_a_row_of_zeros_is_refused() -> None:
    with pytest.raises(ValueError, match="clipped to 0"):
        coefficients_after(0, vector(0.5, 0.5), soft_of(0.6, 0.9), 1, 1e3, 0.0)


def test_rows_follow_when_everyone_has_sent() -> None:
    clients = [make([1.0], [2.0], [0.5]), make([3.0], [1.0], [1.0]), make([-1.0], [1.0], [1.0])]
    server, _ = ktpfl(clients, vector(1.0, -3.0), [[0, 1]], own_only, Rule(1.0), 3, 0.5, 0.4)
    soft = list(server["soft"])
    third = vector(1 / 3, 1 / 3, 1 / 3)
    for k in (0, 1):
        expected = coefficients_after(k, third, soft, 3, 0.5, 0.4)
        assert server["coefficients"][k].tolist() == expected.tolist()
    assert server["coefficients"][2].tolist() == third.tolist()  # never selected


def test_the_next_target_is_of_the_latest_predictions_and_coefficients() -> None:
    def run(cohorts: list[list[int]]) -> tuple[Params, list[Params]]:
        clients = [make([1.0], [2.0], [0.5]), make([3.0], [1.0], [1.0])]
        return ktpfl(clients, vector(1.0), cohorts, batches, Rule(1.0), 2, 0.5, 0.1, 1.0)

    def batches(t: int, k: int, phase: int) -> list[list[int]]:
        return [[0]] if t == 1 else public_only(t, k, phase)

    before, held = run([[0, 1]])
    _, after = run([[0, 1], [0]])
    c, soft = before["coefficients"][0].tolist(), before["soft"][:, 0, 0].tolist()
    assert abs(c[0] - 0.5) > 1e-5
    target = c[0] * soft[0] + c[1] * soft[1]
    w, v = held[0]["body.w"].item(), held[0]["head.v"].item()
    assert after[0]["body.w"].item() == pytest.approx(stepped(w, v, 1.0, soft[0] - target)[0], abs=1e-12)


def test_targets_are_of_the_predictions_before_the_round() -> None:
    def second_after(cohort: list[int]) -> float:
        clients = [make([1.0], [2.0], [0.5]), make([3.0], [1.0], [1.0])]
        _, held = ktpfl(clients, vector(1.0), [cohort], first(1), Rule(1.0), 2, 0.5, 0.1, 1.0)
        return held[1]["body.w"].item()

    assert second_after([0, 1]) == second_after([1])


def test_one_client_alone_learns_nothing_from_itself() -> None:
    server, (held,) = ktpfl([make([1.0], [2.0], [0.5])], vector(1.0), [[0]] * 2, public_only, Rule(1.0), 4, 0.5, 0.3)
    assert held["body.w"].item() == pytest.approx(1.0, abs=1e-15)
    assert server["coefficients"].tolist() == [[1.0]]


def test_without_batches_models_stay_and_coefficients_move() -> None:
    clients = [make([1.0], [2.0], [0.5]), make([3.0], [1.0], [1.0])]
    server, held = ktpfl(clients, vector(1.0), [[0]], none, Rule(1.0), 1, 0.5, 0.1)
    assert held[0]["body.w"].item() == 1.0
    assert server["coefficients"][0].tolist() != [0.5, 0.5]
