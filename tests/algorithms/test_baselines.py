"""The baselines' own special cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import potluck
from potluck import Batch, Networks, Payload, Round, Task, draws
from potluck.algorithms import State, Upload, algorithm
from potluck.algorithms.admission import aggregated
from potluck.errors import ConfigError, PayloadError, TrainingError

from .test_special_cases import QUIET, client, federation

TASK = Task((1, 4, 4), classes=3, clients=4, width=2)


def sent(number: int, labels: list[int], value: float, **more: list[int]) -> Upload:
    tensors = {"means": torch.full((len(labels), 2), value), "labels": torch.tensor(labels, dtype=torch.int32)}
    return Upload(number, Payload({**tensors, **{k: torch.tensor(v, dtype=torch.int32) for k, v in more.items()}}))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fml", {"alpha": 2}, "algorithm.alpha: 2 is not less than or equal to 1"),
        ("fedkd", {"energy_start": 0}, "algorithm.energy_start: 0 is not greater than 0"),
        ("fedapen", {"holdout": 1}, "algorithm.holdout: 1 is not less than 1"),
        ("fd", {"distillation": -1}, "algorithm.distillation: -1"),
        ("fedproto", {"inference": "both"}, "algorithm.inference: 'both' is not 'head' or 'prototype'"),
        ("fedtgp", {"server_epochs": 0}, "algorithm.server_epochs: 0"),
        ("kt-pfl", {"temperature": 0}, "algorithm.temperature: 0"),
    ],
)
def test_settings_out_of_range(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        algorithm(name, settings)


def test_kt_pfl_needs_public_data() -> None:
    with pytest.raises(ConfigError, match=r"KT-pFL needs samples that everybody may see: give public="):
        potluck.Federation("kt-pfl", [client(6, [0, 1])], device="cpu")


def test_kt_pfl_says_where_there_are_too_many_clients() -> None:
    with pytest.raises(ConfigError, match=r"predictions of all 10,000 clients on 1,000 public .* 4.5 GiB"):
        algorithm("kt-pfl").check_task(Task((1, 4, 4), classes=100, clients=10_000, public=1000))


def test_kt_pfl_starts_again_where_no_coefficient_is_left() -> None:
    soft = torch.rand(3, 4, 3).softmax(2)
    state = {"soft": soft, "coefficients": torch.full((3, 3), 1 / 3)}
    method = algorithm("kt-pfl", {"coefficient_learning_rate": 1e9, "rho": 0.0})
    rows = method.aggregate(state, [Upload(0, Payload({"soft": soft[0]}))], Round(1, 1), TASK)["coefficients"]
    assert torch.isfinite(rows).all()
    assert float(rows[0].sum()) == pytest.approx(1)


def test_fd_leaves_ones_own_outputs_out() -> None:
    method, state = algorithm("fd"), algorithm("fd").server_state(TASK)
    outputs = [sent(0, [0, 1], 0.0), sent(2, [0], 1.0), sent(3, [0], 2.0)]
    for upload in outputs:
        upload.payload.tensors["means"].resize_(len(upload.payload.tensors["labels"]), 3).fill_(float(upload.client))
    state = method.aggregate(state, outputs, Round(1, 2), TASK)
    received = method.receive(method.broadcast(state, 2, Round(2, 2)), TASK)
    assert received["known"].tolist() == [1, 0, 0]
    assert received["values"][0].tolist() == [1.5, 1.5, 1.5]  # of clients 0 and 3
    # Nobody else has class 1, and client 0 alone learns nothing from it.
    assert method.receive(method.broadcast(state, 0, Round(2, 2)), TASK)["known"].tolist() == [1, 0, 0]
    # Client 1 has not said what it has: it is sent everything.
    assert method.receive(method.broadcast(state, 1, Round(2, 2)), TASK)["known"].tolist() == [1, 1, 0]


def test_fedproto_keeps_prototypes_of_absent_classes_and_weighs_by_samples() -> None:
    method, state = algorithm("fedproto"), algorithm("fedproto").server_state(TASK)
    state = method.aggregate(
        state, [sent(0, [0, 2], 1.0, counts=[1, 5]), sent(1, [0], 4.0, counts=[2])], Round(1, 2), TASK
    )
    assert state["prototypes"].tolist() == [[3, 3], [0, 0], [1, 1]]
    state = method.aggregate(state, [sent(1, [1], 7.0, counts=[2])], Round(2, 2), TASK)
    assert state["prototypes"].tolist() == [[3, 3], [7, 7], [1, 1]]
    assert state["known"].tolist() == [1, 1, 1]
    assert method.broadcast(state, 1, Round(3, 3)).tensors["labels"].tolist() == [1]  # what it has now


def test_fedproto_weighs_by_shares_of_more_samples_than_a_number_can_hold() -> None:
    """Numbers near the largest of float32, and as many samples as may be."""
    method, state = algorithm("fedproto"), algorithm("fedproto").server_state(TASK)
    most = 2**24
    uploads = [sent(number, [1], value, counts=[most]) for number, value in ((0, 2e38), (1, 1e38))]
    for upload in uploads:
        method.check(upload, state, TASK)
    torch.testing.assert_close(
        method.aggregate(state, uploads, Round(1, 1), TASK)["prototypes"][1], torch.full((2,), 1.5e38)
    )


@pytest.mark.parametrize("name", ["fd", "kt-pfl"])
def test_what_are_no_predictions_is_refused(name: str) -> None:
    method, task = algorithm(name), replace(TASK, public=2)
    wrong = torch.tensor([[0.2, 0.2, 0.6], [-5.0, 3.0, 3.0]])
    tensors = {"soft": wrong} if name == "kt-pfl" else {"means": wrong, "labels": torch.arange(2, dtype=torch.int32)}
    with pytest.raises(PayloadError, match=r"client 2 sent .* that are no probabilities"):
        method.check(Upload(2, Payload(tensors)), method.server_state(task), task)


def test_fedproto_refuses_a_class_without_samples() -> None:
    method = algorithm("fedproto")
    with pytest.raises(PayloadError, match="client 1 sent a class without a sample"):
        method.check(sent(1, [0], 1.0, counts=[0]), method.server_state(TASK), TASK)


def test_fedproto_predicts_by_the_nearest_prototype_or_by_its_head() -> None:
    runs = {
        kind: federation("fedproto", [client(12, [0, 1]), client(12, [1, 2])], inference=kind, epochs=3, pull=0.1)
        for kind in ("head", "prototype")
    }
    for run in runs.values():
        run.run(2, **QUIET)
    x = runs["head"].clients[0].test.x
    by_head, by_prototype = (run.logits(0, x) for run in runs.values())
    assert not torch.equal(by_head, by_prototype)
    # Only the classes that the client has can be the nearest.
    assert set(by_prototype.argmax(1).tolist()) <= {0, 1}


def test_fedtgp_with_a_single_class() -> None:
    """Nothing to be told from: the margin is the largest allowed."""
    method = algorithm("fedtgp", {"server_epochs": 2})
    state = method.aggregate(method.server_state(TASK), [sent(0, [1], 1.0)], Round(1, 1), TASK)
    assert all(torch.isfinite(tensor).all() for tensor in state.values() if tensor.is_floating_point())
    assert len(method.broadcast(state, 3, Round(2, 2)).tensors["values"]) == 3


@pytest.mark.parametrize(("rule", "margin"), [("paper", 5.0), ("release", 4.5)])
def test_fedtgp_margin_by_the_paper_and_by_the_release(rule: str, margin: float) -> None:
    """The class means are (0, 0), (.3, .4) and (3, 4): .5, 4.5 and 5 apart, and .5, .5 and 4.5 from the nearest."""
    means = torch.tensor([[-0.3, 0.1], [0.3, -0.1], [0.3, 0.4], [3.0, 4.0]])
    sends = [(0, means[:1], [0]), (1, means[1:3], [0, 1]), (2, means[3:], [2])]
    uploads = [
        Upload(number, Payload({"means": rows, "labels": torch.tensor(labels, dtype=torch.int32)}))
        for number, rows, labels in sends
    ]

    def after_a_round(**settings: Any) -> State:
        method = algorithm("fedtgp", {"server_epochs": 1, **settings})
        with draws.initial_weights(0):
            state = method.server_state(TASK)
        return method.aggregate(state, uploads, Round(1, 1), TASK)

    def same(one: State, other: State) -> bool:
        return all(torch.equal(tensor, other[name]) for name, tensor in one.items())

    found = after_a_round(margin_rule=rule)
    assert same(found, after_a_round(margin_rule=rule, margin=margin))
    assert not same(found, after_a_round(margin_rule=rule, margin=margin - 0.25))


def test_fedtgp_that_diverges_names_its_rate_and_no_client() -> None:
    """One mean at a time, at a rate at which batches of ten still converge."""
    task = replace(TASK, width=64)

    def after(rounds: int, batch: int) -> State:
        generator = torch.Generator().manual_seed(0)
        method = algorithm("fedtgp", {"server_batch_size": batch, "server_learning_rate": 0.5, "server_epochs": 5})
        with draws.initial_weights(1):
            state = method.server_state(task)
        for number in range(1, rounds + 1):
            means = [(100 * torch.randn(2, 64, generator=generator)).relu() for _ in range(4)]
            labels = torch.tensor([[0, 1], [1, 2], [0, 2], [0, 1]], dtype=torch.int32)
            uploads = [Upload(n, Payload({"means": means[n], "labels": labels[n]})) for n in range(4)]
            state = aggregated(method, state, uploads, Round(number, rounds, key=number), task)
        return state

    assert torch.isfinite(after(3, 10)["prototypes.2.bias"]).all()
    with pytest.raises(TrainingError, match=r"Try smaller .* also algorithm\.server_learning_rate \(0\.5\)\.$"):
        after(3, 1)


def test_fedkd_where_nobody_makes_a_mistake() -> None:
    """Both cross-entropies are exactly 0, by whose sum the paper divides."""
    sure = {name: nn.Linear(2, 3) for name in ("head", "small_head")}
    for head in sure.values():
        nn.init.zeros_(head.weight)
        head.bias.data.copy_(torch.tensor([500.0, 0.0, 0.0]))
    net = Networks({"body": nn.Linear(2, 2), "small_body": nn.Linear(2, 2), "projection": nn.Linear(2, 2), **sure})
    index = torch.arange(4)
    batch = Batch((torch.randn(4, 2),), torch.zeros(4, dtype=torch.int64), torch.ones(4), index, index)
    assert float(batch.cross_entropy(net(batch.x)).detach()) == 0
    loss = algorithm("fedkd").phases(Round(1, 1))[0].loss(net, batch, {})
    loss.backward()  # type: ignore[no-untyped-call]
    slopes = [weight.grad for name in net.modules for weight in net.parameters(name).values()]
    assert all(slope is not None and torch.isfinite(slope).all() for slope in slopes)


def test_fedkd_refuses_an_update_of_another_shape_before_it_is_multiplied_out() -> None:
    state = {"small_head.weight": torch.zeros(3, 2)}
    parts = {"small_head.weight:left": torch.ones(1 << 20, 1), "small_head.weight:right": torch.ones(1, 1 << 20)}
    with pytest.raises(PayloadError, match=r"expected \(3, 2\)"):
        algorithm("fedkd").check(Upload(0, Payload(parts, {"samples": 1})), state, TASK)


def test_fedapen_keeps_its_weight_between_0_and_1() -> None:
    run = federation("fedapen", [client(20, [0, 1]), client(20, [1, 2])], holdout=0.3, ensemble_learning_rate=50.0)
    run.run(3, **QUIET)
    weights = [float(run.networks(member)["ensemble"].get_parameter("weight").detach()) for member in run.clients]
    assert all(0 <= weight <= 1 for weight in weights)
    assert any(weight in (0.0, 1.0) for weight in weights)


def test_fedapen_with_too_few_samples_to_set_any_aside() -> None:
    with pytest.raises(
        potluck.PotluckError, match="client 1 has 1 training sample, too few to set a holdout share aside"
    ):
        federation("fedapen", [client(6, [0, 1]), client(1, [1])])
