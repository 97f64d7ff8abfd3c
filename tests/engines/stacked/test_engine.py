"""Teams of clients: in any number, with any data, and whatever goes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from potluck.algorithms import State
from potluck.client import Client
from potluck.contract import Batch, Group, Networks, Phase, Received
from potluck.engines import Engine, Job
from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked, engine
from potluck.errors import AlgorithmError, ConfigError, DataError, InterruptedRunError, ModelError, TrainingError
from potluck.payload import Payload

from ..made_up import (
    CLASSES,
    IMAGES,
    MadeUp,
    Mean,
    cross_entropy,
    full_model,
    image_model,
    job,
    member,
    model,
    plain_model,
    samples,
    setting,
)  # fmt: skip
from .small import federation, rounding, run
from .teams import ADAM, ROUND, assert_as_loop, given, members
from .test_fallback import same

# ---- clients of all kinds -------------------------------------------------------------------------------------------


def test_unequal_clients_of_two_architectures() -> None:
    assert_as_loop(given(), members())
    assert_as_loop(given(**ADAM), members(), rounding=True, cache=1 << 20)


def test_nobody_or_somebody_alone() -> None:
    assert list(Stacked(given()).train(ROUND, [])) == []
    assert list(Stacked(given()).evaluate([])) == []
    assert_as_loop(given(), members(1))


def test_more_samples_than_are_evaluated_at_once() -> None:
    clients = [
        member(full_model(number), 4, number=number, test=samples(count, key=number), validation=samples(count // 2))
        for number, count in enumerate((2100, 0, 1203, 5))
    ]
    assert_as_loop(setting(Mean()), clients)
    many = [member(plain_model(number), 1100 * number + 3, number=number) for number in range(3)]
    assert_as_loop(setting(Mean(), batch_size=300), many)


def test_inputs_of_different_types_are_not_mixed() -> None:
    bytes_ = (255 * (samples(9, IMAGES)[0] + 1) / 2).to(torch.uint8), torch.arange(9) % CLASSES
    clients = [member(image_model(number), 9, IMAGES, number) for number in range(3)]
    clients.append(member(image_model(3), 9, IMAGES, 3, train=bytes_, test=bytes_))
    assert_as_loop(setting(MadeUp(), IMAGES), clients)


class Idle(nn.Module):
    """Has a weight that no loss reaches, which an optimiser leaves alone: it does not even decay."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.ones(2))
        self.used = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.used(x)
        return out


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.two(self.one(x).tanh())
        return out


class Masked(nn.Module):
    """Holds infinities, as masks of attention do."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((4, 4), float("-inf")).triu(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.softmax(self.mask, 1)


class Untracked(nn.BatchNorm1d):
    """Has no running statistics: also in evaluation it looks at the batch."""

    def __init__(self) -> None:
        super().__init__(4, track_running_stats=False)


@pytest.mark.parametrize("kind", [Idle, Tied, Masked, Untracked])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_odd_networks(kind: Callable[[], nn.Module], optimizer: str) -> None:
    made = setting(Mean(), optimizer=optimizer, weight_decay=0.1, momentum=0.9, clip_norm=0.5)
    clients = [
        member(model(kind(), nn.Linear(4, 5), nn.Linear(5, CLASSES), key=number), 5 + number, number=number)
        for number in range(3)
    ]
    assert_as_loop(made, clients)


def test_phases_of_all_kinds() -> None:
    mixer = Group(("head",), learning_rate=0.5, momentum=0.0, project=lambda w: w.clamp(-0.2, 0.2))
    before = [Phase(train=("head",), loss=cross_entropy, data="public", epochs=1)]
    then = [
        Phase(train=("body", mixer), loss=cross_entropy, views=2),
        Phase(train=("head",), loss=cross_entropy, data="holdout", epochs=3, augment=False),
        Phase(train=("head",), loss=cross_entropy, epochs=0),
    ]
    clients = [
        member(full_model(number), 6 + 3 * number, number=number, holdout=samples(2 + number)) for number in range(3)
    ]
    made = setting(Mean(before=before, then=then), public=samples(9, key=5), momentum=0.5, schedule="cosine")
    assert_as_loop(made, clients)
    assert_as_loop(setting(Mean(then=[])), clients)


def test_a_loss_that_makes_no_number_of_nothing_harms_nobody() -> None:
    """Who is out of batches has nothing but padding, of which this mean is 0 / 0."""

    def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
        values = nn.functional.cross_entropy(net(batch.x), batch.y, reduction="none")
        return (values * batch.weight).sum() / batch.weight.sum()

    clients = [member(full_model(number), count, number=number) for number, count in enumerate((12, 12, 12, 5))]
    assert_as_loop(setting(MadeUp(then=[Phase(train=("body", "head"), loss=loss)])), clients, rounding=True)


def test_what_is_received_may_be_one_for_all_in_one_round_and_not_in_the_next() -> None:
    def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
        return received["weight"].sum() * cross_entropy(net, batch, received)

    made = setting(MadeUp(then=[Phase(train=("head",), loss=loss)]))
    stacked, loop = Stacked(made), Loop(made)
    for scale in (0.0, 1.0, 2.0, 0.0):
        common = Payload({"weight": torch.ones(2)})
        jobs = [
            job(client, payload=Payload({"weight": torch.full((2,), scale * client.id)}) if scale else common)
            for client in members(4)
        ]
        same(list(loop.train(ROUND, jobs)), list(stacked.train(ROUND, jobs)))
    assert stacked.notes == ()


# ---- states ---------------------------------------------------------------------------------------------------------


def test_states_that_are_still_on_the_device_are_not_copied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rounding(federation("pfedes", "stacked", fraction=1.0))
    assert isinstance(made.engine, Stacked)
    taken: list[bool] = []
    get = made.engine._roster._cache.get

    def spy(client: int, state: State) -> Tensor | None:
        found = get(client, state)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(made.engine._roster._cache, "get", spy)
    run(made, 3)
    assert len(taken) == 2 * 6 and all(taken)


def test_evaluation_takes_no_more_clients_than_it_may_and_asks_for_them_when_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_EVALUATED", 2)
    made: list[int] = []

    def jobs() -> Iterator[Job]:
        for client in members():
            made.append(client.id)
            yield job(client)

    evaluations = Stacked(given()).evaluate(jobs())
    found = [next(evaluations)]
    assert len(made) <= 3
    found += evaluations
    assert sorted(evaluation.client for evaluation in found) == list(range(7))


def test_one_client_s_predictions_and_networks() -> None:
    stacked, loop = Stacked(given()), Loop(given())
    client = members(2)[1]
    assert torch.equal(stacked.predict(job(client), client.test.x), loop.predict(job(client), client.test.x))
    assert stacked.networks(job(client)).keys() == loop.networks(job(client)).keys()


# ---- what goes wrong ------------------------------------------------------------------------------------------------


def times(factor: float, client: int) -> Callable[[Networks, Batch, Received], Tensor]:
    """A loss that is so many times as large for a client, known by its first sample."""
    x = samples(1, key=client)[0]

    def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
        found = (batch.x == x).all(1).any()
        loss = cross_entropy(net, batch, received)
        return loss * torch.where(found, torch.full_like(loss, factor), 1)

    return loss


def trains(*names: str, **more: Any) -> list[Phase]:
    return [Phase(train=names, loss=more.pop("loss", cross_entropy), **more)]


WRONG: dict[str, tuple[type[Exception], MadeUp, list[Client], dict[str, Any]]] = {
    "not finite": (TrainingError, MadeUp(then=trains("head", loss=times(math.nan, 2))), members(), {}),
    "weights": (
        TrainingError,
        MadeUp(then=trains("head", loss=times(1e300, 3))),
        members(),
        {"batch_size": 100, "learning_rate": 1e10},
    ),
    "no holdout": (DataError, MadeUp(then=trains("head", data="holdout")), members(), {}),
    "no public": (ConfigError, MadeUp(then=trains("head", data="public")), members(), {}),
    "no such network": (ModelError, MadeUp(then=trains("tail")), members(), {}),
    "one sample": (DataError, MadeUp(), [member(full_model(), 4), member(full_model(), 1, number=1)], {}),
    "one at a time": (DataError, MadeUp(), [member(full_model(), 4)], {"batch_size": 1}),
    "one to test": (
        AlgorithmError,
        MadeUp(),
        [member(model(Untracked(), nn.Linear(4, 5), nn.Linear(5, CLASSES)), 4, test=samples(1001))],
        {},
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_errors_are_those_of_loop(what: str) -> None:
    kind, algorithm, clients, more = WRONG[what]
    messages = []
    for made in (Loop, Stacked):
        with pytest.raises(kind) as error:
            list(made(setting(algorithm, **more)).train(ROUND, [job(client) for client in clients]))
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_weights_that_do_not_fit_are_refused() -> None:
    payload = Payload({"head.bias": torch.zeros(1)})
    with pytest.raises(ModelError, match=r"'head\.bias' of shape \(1,\) does not fit"):
        list(Stacked(given()).train(ROUND, [job(members(1)[0], payload=payload)]))


def test_the_engine_goes_on_after_an_error() -> None:
    made = setting(MadeUp(then=trains("head", loss=times(math.nan, 2))))
    stacked = Stacked(made)
    with pytest.raises(TrainingError, match="client 2"):
        list(stacked.train(ROUND, [job(client) for client in members()]))
    jobs = [job(client) for client in members() if client.id != 2]
    same(list(Loop(made).train(ROUND, jobs)), list(stacked.train(ROUND, jobs)))


@pytest.mark.parametrize("after", [0, 3])
def test_a_run_stops_before_the_next_step(after: int) -> None:
    seen: list[int] = []

    def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
        seen.append(len(batch.y))
        if len(seen) - tried == after:
            made.stop.set()
        return cross_entropy(net, batch, received)

    tried = 1000
    made = setting(MadeUp(then=trains("head", loss=loss, epochs=5)))
    stacked: Engine = Stacked(made)
    stacked.prepare(ROUND, [job(client) for client in members(2)])
    tried = len(seen)
    if after == 0:
        made.stop.set()
    with pytest.raises(InterruptedRunError):
        list(stacked.train(ROUND, [job(client) for client in members()]))
    assert len(seen) - tried == after
    with pytest.raises(InterruptedRunError):
        list(stacked.evaluate([job(client) for client in members()]))


def test_who_stops_listening_half_way_can_begin_anew() -> None:
    stacked = Stacked(given())
    jobs = [job(client) for client in members()]
    outcomes = stacked.train(ROUND, jobs)
    next(outcomes)
    outcomes.close()
    same(list(Loop(given()).train(ROUND, jobs)), list(stacked.train(ROUND, jobs)))


def test_teams_of_one_architecture_side_by_side_have_data_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made = given()
    stacked = Stacked(made, rounding=True)
    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    jobs = [job(client) for client in members(13)]  # of one architecture four, two and one
    same(list(Loop(made).train(ROUND, jobs)), list(stacked.train(ROUND, jobs)))


def test_teams_of_one_architecture_are_each_in_a_mode_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is evaluated already while the other still trains, with batch norm and dropout."""
    made, stacked = given(), Stacked(given(), rounding=True)
    clients = [member(full_model(number), count=count, number=number) for number, count in enumerate((40, 38, 4))]
    jobs = [job(client) for client in clients]  # a team of two, and one of one
    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr(engine, "_IN_TURN", 1)
    same(list(Loop(made).train(ROUND, jobs)), list(stacked.train(ROUND, jobs)))


def test_a_network_that_only_some_clients_hold_is_said_to_be_missing_as_on_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Some(MadeUp):
        """Clients with batch norm hold one network more."""

        def networks(self, model: nn.Module, task: Any) -> dict[str, nn.Module]:
            more = any(isinstance(part, nn.BatchNorm1d) for part in model.modules())
            return {**super().networks(model, task), **({"extra": nn.Linear(3, 3)} if more else {})}

    made = setting(Some(then=(Phase(train=("head", "extra"), loss=cross_entropy),)))
    jobs = [job(client) for client in members(4)]
    stacked = Stacked(made)
    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams are planned together
    for given_engine in (Loop(made), stacked):
        with pytest.raises(ModelError, match="phase 0 trains extra, and clients hold body, head alone"):
            list(given_engine.train(ROUND, jobs))
