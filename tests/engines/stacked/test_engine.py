"""Teams of clients: in any number, with any data, and whatever goes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from potluck.algorithms import State
from potluck.client import Client
from potluck.contract import Batch, Group, Networks, Phase, Received, Round
from potluck.engines import Engine, Job, Setting
from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked, engine, roster
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.course import Course
from potluck.engines.stacked.program import Program
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.team import Team
from potluck.errors import ConfigError, DataError, InterruptedRunError, ModelError, TrainingError
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
from .test_fallback import same

ROUND = Round(2, 5)


def members(count: int = 7) -> list[Client]:
    """Of two architectures, with different amounts of data and weights."""
    return [
        member((plain_model, full_model)[number % 2](number), count=5 + number, number=number)
        for number in range(count)
    ]


ADAM = {"optimizer": "adam", "learning_rate": 0.003, "weight_decay": 0.01}
"""With decay: of a bias before batch norm there is no gradient but rounding, which Adam would blow up."""


def given(**more: Any) -> Setting:
    return setting(Mean(sent=("head",)), **{"momentum": 0.9, "epochs": 2, **more})


def assert_as_loop(made: Setting, clients: list[Client], **options: Any) -> Stacked:
    """Train and evaluate on both engines; the stacked one may not fall back."""
    jobs = [job(client) for client in clients]
    stacked = Stacked(made, **options)
    same(list(Loop(made).train(ROUND, jobs)), list(stacked.train(ROUND, jobs)))
    evaluations = sorted(stacked.evaluate(jobs), key=lambda evaluation: evaluation.client)
    assert evaluations == list(Loop(made).evaluate(jobs))
    assert stacked.notes == ()
    return stacked


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
        ValueError,
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


# ---- memory ---------------------------------------------------------------------------------------------------------


def crowded(most: int, original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """What a team does, if it has no more clients than that; otherwise it begins, and then there is no memory."""

    def instead(one: Team | Course) -> Iterator[Any]:
        team = one.team if isinstance(one, Course) else one
        for number, result in enumerate(original(one)):
            if len(team.jobs) > most and number == 1:
                raise torch.cuda.OutOfMemoryError("there is none")
            yield result

    return instead


def test_a_team_that_is_too_large_goes_on_in_halves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = given()
    jobs = [job(client) for client in members(8)]
    expected = list(Loop(made).train(ROUND, jobs))
    stacked = Stacked(made)
    monkeypatch.setattr(Course, "steps", crowded(1, Course.steps))
    same(expected, list(stacked.train(ROUND, jobs)))
    assert len(stacked.notes) == 4  # of each architecture, four did not fit and then two
    assert "4 clients with the networks of client 0 do not fit into the memory of cpu at once" in stacked.notes[0]
    assert "going on with 2 at a time" in caplog.records[0].getMessage()
    same(expected, list(stacked.train(ROUND, jobs)))
    assert len(stacked.notes) == 4  # now it is known


@pytest.mark.parametrize("step", [0, 1, 5])
def test_teams_that_do_not_fit_side_by_side_train_one_after_another(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original, at_work = Course.steps, set()

    def steps(course: Course) -> Iterator[None]:
        at_work.add(course)
        try:
            for number, _ in enumerate(original(course)):
                if number == step and len(at_work) > 1:
                    raise torch.cuda.OutOfMemoryError("there is none")
                yield
        finally:
            at_work.discard(course)

    made = given()
    jobs = [job(client) for client in members(6)]
    expected = list(Loop(made).train(ROUND, jobs))
    stacked = Stacked(made, rounding=False, cache=1 << 20)
    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(Course, "steps", steps)
    same(expected, list(stacked.train(ROUND, jobs)))
    (note,) = stacked.notes
    assert note == "6 clients do not fit into the memory of cpu side by side: fewer train at the same time from now on."
    same(expected, list(stacked.train(ROUND, jobs)))
    assert stacked.notes == (note,)  # now it is known


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7])
def test_with_memory_for_so_many_clients_all_of_them_train(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made, original = given(), Program.run
    stacked = Stacked(made, cache=1 << 20)

    def run(program: Program) -> None:
        if sum(resident.clients() for resident in stacked._roster._residents.values()) > limit:
            raise torch.cuda.OutOfMemoryError("there is none")
        original(program)

    monkeypatch.setattr(stacked._roster, "_gpu", True)  # where teams run side by side
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(Program, "run", run)
    jobs = [job(client) for client in members(7)]
    expected = list(Loop(made).train(ROUND, jobs))
    for _ in range(3):
        same(expected, list(stacked.train(ROUND, jobs)))
    assert bool(stacked.notes) == (limit < 7)


def test_only_the_memory_of_teams_at_work_is_kept() -> None:
    stacked = assert_as_loop(given(), members(6))
    found = stacked._roster
    one, other = found._residents.values()
    (team,), _ = found.divided([job(members(1)[0])], ROUND)
    assert team.resident is one
    track = team.track
    assert other.clients() == 3
    found.free([team])
    assert team.track is track and other.clients() == 0
    found.free([])
    assert one.clients() == 0


def test_an_evaluation_that_is_too_large_goes_on_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    made = given()
    jobs = [job(client) for client in members()]
    expected = list(Loop(made).evaluate(jobs))
    stacked = Stacked(made)
    monkeypatch.setattr(Team, "evaluations", crowded(1, Team.evaluations))
    assert sorted(stacked.evaluate(jobs), key=lambda evaluation: evaluation.client) == expected


def test_no_memory_for_the_cache_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(*_: Any) -> Tensor:
        raise torch.cuda.OutOfMemoryError("there is none")

    monkeypatch.setattr(Stack, "row", row)
    assert_as_loop(given(), members(), cache=1 << 20)


def test_one_client_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Course, "steps", crowded(0, Course.steps))
    with pytest.raises(torch.cuda.OutOfMemoryError, match="client 0 alone does not fit into the memory of cpu"):
        list(Stacked(given()).train(ROUND, [job(client) for client in members(2)]))


def test_teams_are_cut_to_the_memory_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = members(8)
    monkeypatch.setattr(roster, "_CPU_ROOM", 4 * 3 * 344)  # three clients of the smaller architecture
    sizes: list[int] = []
    original = Course.steps

    def steps(course: Course) -> Iterator[None]:
        sizes.append(len(course.team.jobs))
        return original(course)

    monkeypatch.setattr(Course, "steps", steps)
    assert_as_loop(given(), clients)
    assert sum(sizes) == 8 and max(sizes) < 4


def test_what_is_kept_for_others_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(made: Stacked) -> list[int]:
        return [resident.clients() for resident in made._roster._residents.values()]

    assert kept(assert_as_loop(given(), members(6))) == [3, 3]
    monkeypatch.setattr(roster, "_CPU_ROOM", 4 * 4 * 344)  # four clients of the smaller architecture
    tight = assert_as_loop(given(), members(6))
    assert sorted(kept(tight))[0] == 0


# ---- recorded steps -------------------------------------------------------------------------------------------------


class Replaying(Studio):
    """Does as on a GPU: tries a step twice before it is first made, and then makes it as it was recorded."""

    def __init__(self, device: torch.device, known: set[Hashable]) -> None:
        super().__init__(device, known)
        self._able = True

    def record(self, name: Hashable, step: Callable[[], None]) -> Callable[[], None] | None:
        step()
        step()
        return step


def test_trying_a_step_to_record_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.engines.stacked.track.Studio", Replaying)
    assert_as_loop(given(**ADAM), members(), rounding=True, cache=1 << 20)
    assert_as_loop(given(), members(), rounding=True)
    assert_as_loop(given(epochs=1, batch_size=100), members(), rounding=True)  # a single step


def test_a_step_that_cannot_be_recorded_is_made_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoGraph:
        def __init__(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")

    studio = Studio(torch.device("cpu"))
    studio._able = True
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", NoGraph)
    made: list[int] = []
    with caplog.at_level("INFO", "potluck"):
        assert studio.record("a", lambda: made.append(1)) is None
    assert made == [1, 1] and not studio.records("a") and studio.records("b")
    assert studio.record("a", lambda: made.append(1)) is None and len(made) == 2
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert caplog.records[0].getMessage().endswith("operation not permitted when stream is capturing")


def test_a_step_like_one_that_was_recorded_before_is_tried_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graph:
        def replay(self) -> None:
            made.append(9)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: nullcontext())
    made: list[int] = []
    known: set[Hashable] = set()
    for number in (1, 2):
        studio = Studio(torch.device("cpu"), known)
        studio._able = True
        recording = studio.record("a", lambda number=number: made.append(number))  # type: ignore[misc]
        assert recording is not None
        recording()
    assert made == [1, 1, 1, 9, 2, 2, 9]  # twice to try, once to record, and the recording itself


def test_memory_that_runs_out_while_a_step_is_recorded_is_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullGraph:
        def __init__(self, *_: Any, **__: Any) -> None:
            try:
                raise torch.cuda.OutOfMemoryError("there is none")
            finally:
                raise RuntimeError("capture was invalidated")

    studio = Studio(torch.device("cpu"))
    studio._able = True
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", FullGraph)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        studio.record("a", lambda: None)
