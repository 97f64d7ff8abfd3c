"""FedTGP's transcription, by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from .literal import Order, Params, Rule, fedtgp
from .literal.fedtgp import contrast, margin, tgp
from .parted_toys import first, make, none, sigmoid, stepped, vector


def initial() -> Params:
    """TGP(0) = 3 * (2 * 1 + .5) + 1 = 8.5 and TGP(1) = 3 * relu(2 * -1 + .5) + 1 = 1."""
    return {
        "prototypes.embedding.weight": torch.tensor([[1.0], [-1.0]], dtype=torch.float64),
        "prototypes.0.weight": torch.tensor([[2.0]], dtype=torch.float64),
        "prototypes.0.bias": vector(0.5),
        "prototypes.2.weight": torch.tensor([[3.0]], dtype=torch.float64),
        "prototypes.2.bias": vector(1.0),
    }


def in_order(_round: int, _epoch: int, n: int) -> list[int]:
    return list(range(n))


def flat(params: Params) -> list[float]:
    return [value for name in sorted(params) for value in params[name].flatten().tolist()]


def test_prototypes_of_all_classes() -> None:
    assert tgp(initial()).tolist() == [[8.5], [1.0]]


def test_prototypes_in_two_dimensions() -> None:
    params = {
        "prototypes.embedding.weight": torch.tensor([[1.0, 2.0]], dtype=torch.float64),
        "prototypes.0.weight": torch.tensor([[1.0, 10.0], [-1.0, 0.0]], dtype=torch.float64),
        "prototypes.0.bias": vector(0.5, 0.5),
        "prototypes.2.weight": torch.tensor([[2.0, 7.0], [1.0, 7.0]], dtype=torch.float64),
        "prototypes.2.bias": vector(0.25, -1.0),
    }
    assert tgp(params).tolist() == [[43.25, 20.5]]  # relu(21.5, -.5) = (21.5, 0)


def test_the_margin_is_the_largest_gap() -> None:
    # Class means 0, (3, 4) and (30, 40): 5, 45 and 50 apart, 5, 5 and 45 from the nearest. Two clients hold class 0.
    uploads = [(vector(-3.0, 1.0), 0), (vector(3.0, -1.0), 0), (vector(3.0, 4.0), 1), (vector(30.0, 40.0), 7)]
    assert margin(uploads, 100.0) == margin(uploads, 100.0, "paper") == 50.0
    assert margin(uploads, 100.0, "release") == 45.0
    assert margin(uploads, 10.0) == margin(uploads, 10.0, "release") == 10.0
    assert margin(uploads[:3], 100.0) == 5.0


@pytest.mark.parametrize("count", [1, 2])
def test_the_margin_of_one_class_is_the_largest_there_is(count: int) -> None:
    assert margin([(vector(1.0), 3), (vector(2.0), 3)][:count], 100.0) == 100.0


def test_the_margin_makes_the_own_class_look_farther() -> None:
    params = initial()
    uploads = [(vector(2.0), 1), (vector(9.0), 0)]
    by_hand = [math.log(1 + math.exp(-6.5 + 1.25)), math.log(1 + math.exp(-8 + 0.75))]
    assert contrast(params, uploads[:1], 0.25).item() == pytest.approx(by_hand[0])
    assert contrast(params, uploads, 0.25).item() == pytest.approx(sum(by_hand) / 2)


def test_a_mean_that_is_the_prototype_does_no_harm() -> None:
    params = {name: value.requires_grad_() for name, value in initial().items()}
    for g in torch.autograd.grad(contrast(params, [(vector(1.0), 1)], 0.25), list(params.values())):
        assert torch.isfinite(g).all()


def test_a_step_of_the_server_by_hand() -> None:
    # One client with one class: p = 2 of class 1, and tau = .25 is the margin.
    client = make([2.0], [1.0], [1.0], [1])
    params = fedtgp([client], [[0]], none, Rule(1.0), initial(), 0.1, 1, in_order, tau=0.25).params[-1]
    # logits -6.5 and -1.25. TGP_0 lies above p and TGP_1 below: both derivatives of the loss by them are -q_0
    q_0 = sigmoid(-6.5 + 1.25)
    assert params["prototypes.2.bias"].item() == pytest.approx(1 + 0.1 * 2 * q_0)
    assert params["prototypes.2.weight"].item() == pytest.approx(3 + 0.1 * 2.5 * q_0)
    assert params["prototypes.0.bias"].item() == pytest.approx(0.5 + 0.1 * 3 * q_0)
    assert params["prototypes.0.weight"].item() == pytest.approx(2 + 0.1 * 3 * q_0)
    assert params["prototypes.embedding.weight"].flatten().tolist() == pytest.approx([1 + 0.1 * 6 * q_0, -1.0])


def test_the_server_takes_batches_in_the_given_order() -> None:
    asked: list[tuple[int, int, int]] = []

    def run(order: Order, size: int) -> list[float]:
        clients = [make([2.0], [1.0], [1.0, 2.0], [1, 0]), make([1.0], [1.0], [-1.0])]
        run = fedtgp(clients, [[1, 0]], none, Rule(1.0), initial(), 0.1, 2, order, server_batch=size)
        return flat(run.params[-1])

    def backwards(t: int, epoch: int, n: int) -> list[int]:
        asked.append((t, epoch, n))
        return list(reversed(range(n)))

    # in order of client, then of label
    uploads = [(vector(4.0), 0), (vector(2.0), 1), (vector(-1.0), 0)]
    params = initial()
    delta = margin(uploads, 100.0)
    assert delta == 0.5  # the means of the classes are 1.5 and 2
    for batch in [uploads[:0:-1], uploads[:1]] * 2:
        params = {name: value.requires_grad_() for name, value in params.items()}
        loss = contrast(params, batch, delta)
        g = torch.autograd.grad(loss, list(params.values()))
        params = {name: (params[name] - 0.1 * d).detach() for name, d in zip(params, g, strict=True)}
    assert run(backwards, 2) == pytest.approx(flat(params))
    assert asked == [(1, 0, 3), (1, 1, 3)]
    assert run(in_order, 10) == pytest.approx(run(backwards, 10))
    assert run(in_order, 2) != pytest.approx(run(backwards, 2))


def test_ten_means_make_a_batch() -> None:
    clients = [make([0.5 * k], [1.0], [1.0], [k % 2]) for k in range(11)]
    run = partial(fedtgp, clients, [list(range(11))], none, Rule(1.0), initial(), 0.1, 1, in_order)
    default, ten, eleven = (flat(of.params[-1]) for of in (run(), run(server_batch=10), run(server_batch=11)))
    assert default == ten != eleven


def test_round_1_is_plain_and_round_2_is_drawn_to_what_the_server_trained() -> None:
    client = make([2.0], [1.0], [1.0], [1])
    run = fedtgp([client], [[0]], first(1), Rule(0.01), initial(), 0.1, 3, in_order)
    params, held = run.params[-1], run.held[0]
    w, v = stepped(2.0, 1.0, 1.0, sigmoid(2.0), 0.01)
    assert held["body.w"].item() == pytest.approx(w)

    client = make([2.0], [1.0], [1.0], [1])
    (held,) = fedtgp([client], [[0]] * 2, first(1), Rule(0.01), initial(), 0.1, 3, in_order).held
    pull = 10 * 2 * (w - tgp(params)[1].item())  # lambda is 10
    assert held["body.w"].item() == pytest.approx(stepped(w, v, 1.0, sigmoid(w * v), 0.01)[0] - 0.01 * pull)


def test_every_round_is_drawn_to_the_prototypes_of_the_round_before() -> None:
    def run(rounds: int) -> tuple[Params, float, float]:
        client = make([2.0], [1.0], [1.0], [1])
        of = fedtgp([client], [[0]] * rounds, first(1), Rule(0.01), initial(), 0.1, 3, in_order)
        held = of.held[0]
        return of.params[-1], held["body.w"].item(), held["head.v"].item()

    params, w, v = run(2)
    pull = 10 * 2 * (w - tgp(params)[1].item())
    expected, _ = stepped(w, v, 1.0, sigmoid(w * v), 0.01)
    assert run(3)[1] == pytest.approx(expected - 0.01 * pull, abs=1e-12)


def test_a_class_nobody_holds_has_a_prototype_all_the_same() -> None:
    clients = [make([2.0], [1.0], [1.0], [1]), make([1.0], [1.0], [1.0])]
    params = fedtgp(clients, [[0]], none, Rule(0.01), initial(), 0.1, 3, in_order).params[-1]
    held = fedtgp(
        clients, [[0], [1]], lambda t, _k, _phase: [[0]] * (t == 2), Rule(0.01), initial(), 0.1, 3, in_order, lam=0.5
    ).held
    pull = 0.5 * 2 * (1 - tgp(params)[0].item())
    assert held[1]["body.w"].item() == pytest.approx(1 - 0.01 * (sigmoid(1.0) - 1 + pull))


def test_nothing_is_broadcast_before_anything_was_uploaded() -> None:
    def run(cohorts: list[list[int]]) -> list[float]:
        of = fedtgp([make([2.0], [1.0], [1.0])], cohorts, first(1), Rule(0.1), initial(), 0.1, 1, in_order)
        return flat(of.params[-1])

    assert run([[], [0]]) == run([[0]])
