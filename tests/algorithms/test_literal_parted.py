"""What the seven transcriptions share, and what holds for each of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from .literal import Batches, Params, PartedClient, Rule, fd, fedapen, fedkd, fedproto, fedtgp, fml, ktpfl
from .literal.common import part
from .literal.parted import (
    average,
    class_counts,
    class_means,
    drawn,
    kl_divergence,
    log_softmax,
    softmax,
    squared_error,
    unweighted,
)
from .parted_toys import kl, make, small, small_body, small_head, vector

Result = tuple[list[Tensor], list[Params]]
Runner = Callable[[list[PartedClient], list[list[int]], Batches, Rule], Result]


def run_fml(clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule) -> Result:
    server, held = fml(clients, cohorts, batches, rule, small_body, small_head, small(0.5, 0.25), 0.5, 0.5)
    return list(server.values()), held


def run_fedkd(clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule) -> Result:
    for client in clients:
        client.params["projection.weight"] = torch.tensor([[1.0], [0.5]], dtype=torch.float64)
    run = fedkd(clients, cohorts, batches, rule, small_body, small_head, small(0.5, 0.25))
    return list(run.server[-1].values()), run.held


def run_fedapen(clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule) -> Result:
    for client in clients:
        client.holdout_x, client.holdout_y = client.x, client.y
    server, held = fedapen(clients, cohorts, batches, rule, small_body, small_head, small(0.5, 0.25), 0.1)
    return list(server.values()), held


def run_fd(clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule) -> Result:
    server, held = fd(clients, cohorts, batches, rule, 0.5)
    return [server[s][k] for s in sorted(server) for k in sorted(server[s])], held


def run_fedproto(clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule) -> Result:
    server, held = fedproto(clients, cohorts, batches, rule, 0.5)
    return [server[s] for s in sorted(server)], held


def run_fedtgp(clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule) -> Result:
    initial = {
        "prototypes.embedding.weight": torch.tensor([[1.0, 0.5], [-1.0, 0.25]], dtype=torch.float64),
        "prototypes.0.weight": torch.tensor([[1.0, 0.25], [-0.5, 1.0]], dtype=torch.float64),
        "prototypes.0.bias": vector(0.5, 0.25),
        "prototypes.2.weight": torch.tensor([[0.5, 0.25], [1.0, -1.0]], dtype=torch.float64),
        "prototypes.2.bias": vector(0.125, -0.5),
    }
    run = fedtgp(clients, cohorts, batches, rule, initial, 0.1, 2, lambda _t, _epoch, n: list(range(n)))
    return list(run.params[-1].values()), run.held


def run_ktpfl(clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule) -> Result:
    server, held = ktpfl(clients, vector(1.0, -2.0), cohorts, batches, rule, 2, 0.1, 0.5)
    return list(server.values()), held


RUNNERS = [run_fml, run_fedkd, run_fedapen, run_fd, run_fedproto, run_fedtgp, run_ktpfl]
TWO_PHASES = [run_ktpfl]


def three() -> list[PartedClient]:
    return [
        make([1.0, 0.5], [0.25, -0.5], [1.0, 2.0], [0, 1]),
        make([0.5, -1.0], [1.0, 0.5], [-1.0, 0.5, 1.5], [0, 0, 1]),
        make([0.25, 0.75], [0.5, 1.0], [2.0, -1.0], [1, 1]),
    ]


def numbers(result: Result) -> list[float]:
    server, held = result
    values = [*server, *(params[name] for params in held for name in sorted(params))]
    return [value for tensor in values for value in tensor.flatten().tolist()]


def two_steps(_round: int, _client: int, _phase: int) -> list[list[int]]:
    return [[0, 1], [1]]


def test_kl_divergence_sums_over_classes_and_averages_over_the_batch() -> None:
    z = torch.tensor([[math.log(3), 0.0], [0.0, 0.0]], dtype=torch.float64)
    p = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)
    expected = (kl(0.5, 0.75) + math.log(2)) / 2  # 0 * log 0 = 0
    assert kl_divergence(p, z).item() == pytest.approx(expected)


def test_kl_divergence_takes_its_first_argument_as_a_constant() -> None:
    z = torch.tensor([[1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(kl_divergence(softmax(2 * z), z), z)
    by_hand = softmax(z)[0, 0] - softmax(2 * z)[0, 0]
    assert g[0].tolist() == pytest.approx([by_hand.item(), -by_hand.item()])


def test_softmax_of_large_logits_is_finite() -> None:
    z = torch.tensor([[1000.0, 0.0]], dtype=torch.float64)
    assert softmax(z).tolist() == [[1.0, 0.0]]
    assert log_softmax(z).tolist() == [[0.0, -1000.0]]
    assert kl_divergence(softmax(z), z).item() == 0


def test_squared_error_is_the_mean_over_samples_and_dimensions() -> None:
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    assert squared_error(a, torch.zeros_like(a)).item() == (1 + 4 + 9 + 16) / 4


def test_class_means_are_of_the_classes_that_occur() -> None:
    values = torch.tensor([[1.0, 0.0], [5.0, 5.0], [3.0, 2.0]], dtype=torch.float64)
    y = torch.tensor([3, 1, 3])
    means = class_means(values, y)
    assert list(means) == [1, 3]
    assert means[1].tolist() == [5.0, 5.0]
    assert means[3].tolist() == [2.0, 1.0]
    assert class_counts(y) == {1: 1, 3: 2}


def test_unweighted_mean() -> None:
    assert average([vector(1.0), vector(5.0)]).tolist() == [3.0]
    assert unweighted({0: {"w": vector(1.0)}, 2: {"w": vector(5.0)}})["w"].tolist() == [3.0]


def test_a_group_is_what_belongs_to_its_networks() -> None:
    params = {"body.w": vector(1.0), "small_body.w": vector(2.0), "head.v": vector(3.0), "head.0.v": vector(4.0)}
    assert list(part(params, "body", "head")) == ["body.w", "head.v", "head.0.v"]
    assert list(part(params, "small_body")) == ["small_body.w"]


def test_a_batch_is_drawn_by_position() -> None:
    x, y = drawn(vector(1.0, 2.0, 3.0), torch.tensor([0, 1, 2]), [2, 0])
    assert (x.tolist(), y.tolist()) == ([3.0, 1.0], [2, 0])


@pytest.mark.parametrize("run", RUNNERS)
def test_the_order_within_a_cohort_does_not_matter(run: Runner) -> None:
    rule = Rule(0.1, momentum=0.9, weight_decay=0.1, clip_norm=1.0)
    assert numbers(run(three(), [[0, 1, 2]] * 3, two_steps, rule)) == numbers(
        run(three(), [[2, 0, 1]] * 3, two_steps, rule)
    )


@pytest.mark.parametrize("run", RUNNERS)
def test_rounds_count_from_one_and_phases_from_zero(run: Runner) -> None:
    asked: list[tuple[int, int, int]] = []

    def batches(t: int, k: int, phase: int) -> list[list[int]]:
        asked.append((t, k, phase))
        return [[0]]

    run(three(), [[1], [2, 0]], batches, Rule(0.1))
    later = 2 if run in TWO_PHASES or run is run_fedapen else 1
    phases = [(1, 1, 2 if run in TWO_PHASES else 1), (2, 0, later), (2, 2, later)]
    assert asked == [(t, k, phase) for t, k, count in phases for phase in range(count)]


@pytest.mark.parametrize("run", RUNNERS)
def test_a_client_never_selected_holds_what_it_was_given(run: Runner) -> None:
    clients = three()
    _, held = run(clients, [[0, 2], [2]], two_steps, Rule(0.1))
    assert held[1]["body.w"].tolist() == [0.5, -1.0]
    assert held[1]["head.v"].tolist() == [1.0, 0.5]
    assert not any(name.startswith("small_") for name in held[1])


@pytest.mark.parametrize("run", RUNNERS)
def test_a_round_that_selects_nobody_changes_nothing(run: Runner) -> None:
    one = run(three(), [[0, 1]], two_steps, Rule(0.1))
    assert numbers(run(three(), [[0, 1], []], two_steps, Rule(0.1))) == pytest.approx(numbers(one), abs=1e-15)


@pytest.mark.parametrize("run", RUNNERS)
def test_a_client_selected_once_holds_what_it_trained_then(run: Runner) -> None:
    _, once = run(three(), [[0]], two_steps, Rule(0.1))
    _, later = run(three(), [[0], [1, 2]], two_steps, Rule(0.1))
    assert {name: value.tolist() for name, value in later[0].items()} == {
        name: value.tolist() for name, value in once[0].items()
    }


@pytest.mark.parametrize("run", RUNNERS)
def test_momentum_is_forgotten_between_rounds_and_phases_but_not_between_batches(run: Runner) -> None:
    def one_step(_round: int, _client: int, _phase: int) -> list[list[int]]:
        return [[0, 1]]

    def with_momentum(batches: Batches, momentum: float) -> list[float]:
        return numbers(run(three(), [[0, 1], [1, 2]], batches, Rule(0.1, momentum=momentum)))

    assert with_momentum(one_step, 0.9) == with_momentum(one_step, 0.0)
    assert with_momentum(two_steps, 0.9) != with_momentum(two_steps, 0.0)


@pytest.mark.parametrize("run", RUNNERS)
def test_what_was_given_is_left_alone(run: Runner) -> None:
    clients = three()
    given = [client.params for client in clients]
    _, held = run(clients, [[0, 1], [1, 2]], two_steps, Rule(0.1))
    for before, after, fresh in zip(given, held, three(), strict=True):
        for name in fresh.params:
            assert before[name].tolist() == fresh.params[name].tolist() != after[name].tolist()


@pytest.mark.parametrize("run", RUNNERS)
def test_single_precision_is_refused(run: Runner) -> None:
    clients = three()
    clients[0].params = {name: value.float() for name, value in clients[0].params.items()}
    with pytest.raises(TypeError, match="float64"):
        run(clients, [[0]], two_steps, Rule(0.1))


@pytest.mark.parametrize("run", RUNNERS)
def test_nobody_is_selected_twice(run: Runner) -> None:
    with pytest.raises(ValueError, match="twice"):
        run(three(), [[0, 0]], two_steps, Rule(0.1))
