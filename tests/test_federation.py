"""The round loop: who takes part, what the server does, when clients are evaluated, and the Python interface."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import potluck
from potluck import draws
from potluck.algorithms import Algorithm, State, Upload
from potluck.algorithms.standalone import Standalone
from potluck.client import Client
from potluck.contract import Batch, Networks, Phase, Received, Round, Task
from potluck.engines.loop import Loop
from potluck.engines.threads import threads
from potluck.errors import (
    BusyRunError,
    ConfigError,
    DataError,
    InterruptedRunError,
    ModelError,
    PayloadError,
    PotluckError,
    TrainingError,
)
from potluck.federation import Federation, cohort_size
from potluck.metrics.traffic import measure_traffic
from potluck.payload import Payload
from potluck.run.folder import RunFolder

CLASSES = 3


def samples(count: int, key: int = 0) -> tuple[Tensor, Tensor]:
    x = draws.uniform(draws.spread(draws.fold(key, "samples"), torch.arange(count * 4))).reshape(count, 4) * 2 - 1
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0.3).long()


def net(key: int = 0, width: int = 6) -> nn.Module:
    with draws.initial_weights(key):
        return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, CLASSES))


def clients(count: int = 4, equal: bool = False, **more: Any) -> list[potluck.Client]:
    """Of two architectures, with more and more samples."""
    return [
        potluck.Client(
            model=net(number, 6 if equal or number % 2 == 0 else 9),
            **{"train": samples(6 + 3 * number, number), "test": samples(20, 100 + number), **more},
        )
        for number in range(count)
    ]


def federation(
    algorithm: str | Algorithm = "pfedes", members: Sequence[potluck.Client] | None = None, **settings: Any
) -> Federation:
    settings = {"device": "cpu", "batch_size": 4, "evaluate_every": 2, **settings}
    return Federation(algorithm, members if members is not None else clients(), **settings)


def held(of: Federation, number: int) -> State | None:
    """What a client holds; None if it never trained."""
    return of.job(number, Round(1, 1)).held()


def equal(one: Mapping[str, Tensor] | None, other: Mapping[str, Tensor] | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def same_result(one: Federation, other: Federation) -> bool:
    """To the bit: the server, every client, and all records but the time they took."""
    records = [[{**record, "seconds": 0} for record in each.history.rounds] for each in (one, other)]
    return (
        equal(one.server, other.server)
        and all(equal(held(one, number), held(other, number)) for number in range(len(one.clients)))
        and records[0] == records[1]
        and one.history.client_accuracy == other.history.client_accuracy
    )


class Tell(Algorithm):
    """The server holds a number, which counts the rounds, and the weighted mean of what clients tell of their data."""

    name: ClassVar[str] = "tell"
    title: ClassVar[str] = "Tell"
    paper: ClassVar[str] = "none"
    collects: ClassVar[Literal["train", "holdout", "public"] | None] = "train"

    def server_state(self, task: Task) -> State:
        return {"round": torch.zeros(()), "mean": torch.zeros(task.shape)}

    def phases(self, round: Round) -> Sequence[Phase]:
        return ()

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        return {"mean": batch.x.sum(0), "round": received["round"] * batch.weight.sum()}

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        return Payload({name: value / samples for name, value in collected.items()}, {"samples": samples})

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        mean = potluck.algorithms.mean(uploads)
        return {"round": mean["round"] + 1, "mean": mean["mean"]}

    def predict(self, net: Networks, x: Tensor, received: Received) -> Tensor:
        """Always the class that the server's number names."""
        return (torch.arange(CLASSES) == received["round"]).float().expand(len(x), CLASSES)


class Enrolling(Tell):
    """With a round 0."""

    name: ClassVar[str] = "enrolling"
    enrolls: ClassVar[bool] = True


# ---- the Python interface -------------------------------------------------------------------------------------------


def test_the_interface() -> None:
    everybody = clients()
    of = potluck.Federation("pfedes", clients=everybody, mu=0.1)
    history = of.run(rounds=2)
    assert [record["round"] for record in history.rounds] == [1, 2]
    assert 0 <= history.summary["all_last"] <= 1
    x, _ = samples(5)
    predicted = of.predict(3, x)
    assert predicted.shape == (5,)
    assert predicted.dtype == torch.int64
    parts = of.networks(3)
    assert set(parts) == {"body", "head", "extractor"}
    assert torch.allclose(of.logits(3, x), parts["head"](parts["body"](x)), atol=1e-6)
    assert torch.equal(predicted, of.logits(3, x).argmax(1))


def test_arrays_are_as_good_as_tensors() -> None:
    def run(convert: Callable[[Tensor], Any]) -> tuple[Federation, Tensor]:
        members = []
        for number in range(2):
            train, test = ([convert(part) for part in samples(9, key)] for key in (number, 50 + number))
            members.append(potluck.Client(net(number), (train[0], train[1]), (test[0], test[1])))
        of = federation(members=members)
        of.run(1)
        return of, of.logits(0, convert(samples(3)[0]))

    tensors, arrays = run(lambda tensor: tensor), run(lambda tensor: tensor.numpy())
    assert same_result(tensors[0], arrays[0])
    assert torch.equal(tensors[1], arrays[1])


def test_clients_improve_and_are_not_changed() -> None:
    everybody = clients()
    before = [{name: tensor.clone() for name, tensor in c.architecture.build().state_dict().items()} for c in everybody]
    of = federation(members=everybody, epochs=5, learning_rate=0.1)
    of.run(10)
    losses = [record["loss"] for record in of.history.rounds]
    assert losses[-1] < 0.8 * losses[0]
    for client, state in zip(everybody, before, strict=True):
        assert equal(client.architecture.build().state_dict(), state)


def test_predictions_are_those_that_were_evaluated() -> None:
    of = federation("standalone")
    history = of.run(2)
    for client, accuracy in zip(of.clients, history.client_accuracy, strict=True):
        x, y = client.test.x, client.test.y
        assert accuracy == pytest.approx((of.predict(client, x) == y).double().mean().item(), abs=1e-12)


def test_a_client_predicts_before_the_first_round_with_its_own_model() -> None:
    everybody = clients()
    of = federation(members=everybody)
    model = everybody[1].architecture.build().eval()
    assert torch.allclose(of.logits(1, samples(5)[0]), model(samples(5)[0]), atol=1e-6)


def test_federations_of_the_same_clients_leave_each_other_alone() -> None:
    everybody, (x, _), often = clients(), samples(5), {"evaluate_every": 1}
    alone = [federation("standalone", clients(), **often), federation("fd", clients()[::-1], **often)]
    for each in alone:
        each.run(3)
    first = federation("standalone", everybody, **often)
    first.run(1)
    before = first.logits(0, x)
    second = federation("fd", everybody[::-1], **often)
    assert torch.equal(first.logits(0, x), before)
    for rounds in (2, 3):  # in turns
        second.run(rounds)
        first.run(rounds)
    assert same_result(first, alone[0])
    assert same_result(second, alone[1])
    for number, client in enumerate(everybody):
        for each, other, place in ((first, alone[0], number), (second, alone[1], len(everybody) - 1 - number)):
            assert torch.equal(each.logits(client, x), other.logits(place, x))
            assert torch.equal(each.logits(each.clients[place], x), other.logits(place, x))
    assert not torch.equal(first.logits(everybody[0], x), second.logits(everybody[0], x))


def test_a_federation_s_clients_are_its_own() -> None:
    everybody = clients()
    of, other = federation(members=everybody), federation(members=everybody)
    assert isinstance(of.clients, tuple)
    assert [client.id for client in of.clients] == [0, 1, 2, 3]
    assert [client.id for client in everybody] == [-1] * 4
    x = samples(2)[0]
    for stranger in (clients(1)[0], other.clients[0]):
        with pytest.raises(ConfigError, match="not one of this federation's"):
            of.predict(stranger, x)
    for number in (4, -1, True, "0"):
        with pytest.raises(ConfigError, match=r"there is no client .*: the 4 clients are numbered from 0 to 3"):
            of.predict(number, x)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, r"clients: give a list of potluck\.Client, not None"),
        (3, r"clients: give a list of potluck\.Client, not 3"),
        ("ab", r"clients: give a list of potluck\.Client, not 'ab'"),
        ([("x", "y")], r"clients: number 0 is a tuple\. Make each by potluck\.Client"),
        ({"a": 1}, r"clients: give a list; of a dict, list\(clients\.values\(\)\)"),
    ],
)
def test_what_is_no_list_of_clients_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        potluck.Federation("standalone", given)


def test_a_federation_is_gone_when_nobody_holds_it() -> None:
    gc.disable()
    try:
        everybody = clients(2)
        first = weakref.ref(federation("standalone", everybody))
        assert first() is None
        assert federation("standalone", everybody).rounds == 0
    finally:
        gc.enable()


def in_a_cycle(of: Federation) -> Federation:
    """A federation that is held by something it holds, as by a callback of a user's: it goes when Python looks."""
    of.history.holder = of  # type: ignore[attr-defined]
    return of


def test_a_forgotten_federation_leaves_the_gpu_before_another_moves_its_data_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.collect()
    gc.disable()
    try:
        first = weakref.ref(in_a_cycle(federation("standalone", clients(2))))
        there: list[bool] = []

        def admit(*_: Any) -> None:
            there.append(first() is not None)
            raise DataError("enough")

        monkeypatch.setattr("potluck.federation.admit", admit)
        for device in ("cpu", "cuda"):
            monkeypatch.setattr("potluck.federation.find_devices", lambda _, device=device: [torch.device(device)])
            with pytest.raises(DataError, match="enough"):
                federation("standalone", clients(2))
        assert there == [True, False]
    finally:
        gc.enable()


def test_a_federation_that_lost_its_name_leaves_the_gpu_before_the_next_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    gc.disable()
    try:
        made = in_a_cycle(federation("standalone", clients(2)))
        first = weakref.ref(made)
        made = federation("standalone", clients(2))
        monkeypatch.setattr(made, "device", torch.device("cuda"))
        assert first() is not None
        made.run(1, watch=lambda _: None)
        assert first() is None
    finally:
        gc.enable()


# ---- who takes part -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "fraction", "expected"),
    [(100, 0.29, 29), (100, 0.1, 10), (100, 0.57, 57), (10, 0.7, 7), (3, 1.0, 3), (10, 0.19, 1), (7, 0.5, 3)],
)
def test_the_size_of_a_cohort(count: int, fraction: float, expected: int) -> None:
    assert cohort_size(count, fraction) == expected


def test_every_share_of_a_hundred_clients_is_met() -> None:
    assert [cohort_size(100, percent / 100) for percent in range(1, 101)] == list(range(1, 101))


def test_nobody_is_not_a_cohort() -> None:
    with pytest.raises(ConfigError, match=r"fraction 0\.05 of 10 clients selects nobody: give 1/10 or more"):
        cohort_size(10, 0.05)
    with pytest.raises(ConfigError, match="at least one client"):
        federation(members=[])


def many() -> list[potluck.Client]:
    model, data = nn.Linear(4, CLASSES), samples(3)
    return [potluck.Client(model, data) for _ in range(50)]


def test_a_cohort_is_a_sorted_choice_that_depends_on_seed_and_round() -> None:
    members = many()
    one, again, other = (federation("standalone", members, fraction=0.29, seed=seed) for seed in (0, 0, 1))
    for number in range(1, 30):
        cohort = one.cohort(number)
        assert cohort == sorted(set(cohort)) == again.cohort(number)
        assert len(cohort) == 14
        assert cohort != other.cohort(number)
    assert len({tuple(one.cohort(number)) for number in range(1, 100)}) == 99


def test_clients_are_chosen_equally_often() -> None:
    of = federation("standalone", many(), fraction=0.2)
    rounds = 2000
    chosen = [client for number in range(1, rounds + 1) for client in of.cohort(number)]
    counts = torch.bincount(torch.tensor(chosen), minlength=50)
    deviation = (counts - 0.2 * rounds) / (rounds * 0.2 * 0.8) ** 0.5
    assert float(deviation.abs().max()) < 4
    assert 0.5 < float(deviation.var()) < 1.7


def test_the_cohort_trains_and_the_others_keep_what_they_hold() -> None:
    of = federation("standalone", fraction=0.5)
    last: dict[int, State | None] = dict.fromkeys(range(4))
    for number in range(1, 6):
        of.run(number)
        assert of.history.rounds[-1]["cohort"] == of.cohort(number)
        for client in range(4):
            now = held(of, client)
            assert equal(now, last[client]) == (client not in of.cohort(number))
            last[client] = now


def test_clients_that_were_never_chosen_hold_nothing_and_are_evaluated_as_they_came() -> None:
    of = federation("standalone", fraction=0.25, evaluate_every=1)
    (chosen,) = of.cohort(1)
    of.run(1)
    for number, client in enumerate(of.clients):
        assert (held(of, number) is None) == (number != chosen)
        model = client.architecture.build().eval()
        x, y = client.test.x, client.test.y
        if number != chosen:
            accuracy = (model(x).argmax(1) == y).double().mean().item()
            assert of.history.client_accuracy[number] == pytest.approx(accuracy, abs=1e-12)


# ---- the server -----------------------------------------------------------------------------------------------------


def test_uploads_are_weighted_by_samples_over_the_cohort() -> None:
    of = federation(Tell(), clients(5), fraction=0.6)
    for number in range(1, 4):
        of.run(number)
        cohort = of.cohort(number)
        data = torch.cat([of.clients[client].train.x for client in cohort])
        assert torch.allclose(of.server["mean"], data.mean(0), atol=1e-6)
        assert int(of.server["round"]) == number


def test_uploads_come_in_the_order_of_clients() -> None:
    seen: list[list[int]] = []

    class Noting(Tell):
        def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
            seen.append([upload.client for upload in uploads])
            return state

    of = federation(Noting(), clients(6), fraction=0.5)
    of.engine = Loop(of.setting, workers=3)
    of.run(4)
    assert seen == [of.cohort(number) for number in range(1, 5)]


def test_the_server_computes_with_one_thread_and_leaves_the_number_as_it_was() -> None:
    seen: list[int] = []

    class Noting(Tell):
        def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
            seen.append(torch.get_num_threads())
            if round.number == 2:
                raise TrainingError("a step that fails")
            return super().aggregate(state, uploads, round, task)

    of = federation(Noting())
    with threads(3):
        with pytest.raises(TrainingError, match="a step that fails"):
            of.run(2)
        assert torch.get_num_threads() == 3
    assert seen == [1, 1]


def test_a_method_can_refuse_a_task_before_anything_is_made() -> None:
    class Picky(Tell):
        most: int = 2
        holdout_share: ClassVar[float] = 0.5

        def check_task(self, task: Task) -> None:
            if task.classes > self.most or task.public:
                raise ConfigError(f"most: {self.most} is too few for {task.classes} classes and {task.public} samples.")

        def server_state(self, task: Task) -> State:
            raise AssertionError("made all the same")

    with pytest.raises(ConfigError, match="most: 2 is too few for 3 classes and 0 samples"):
        federation(Picky())
    with pytest.raises(ConfigError, match="most: 5 is too few for 3 classes and 7 samples"):
        federation(Picky(most=5), public=samples(7))
    # Nor is anything set aside: these clients have too few samples for that.
    few = clients(train=samples(1))
    with pytest.raises(ConfigError, match="most: 2 is too few for 3 classes and 0 samples"):
        federation(Picky(), few)
    with pytest.raises(DataError, match="too few to set a holdout share aside"):
        federation(Picky(most=5), few)
    with pytest.raises(ConfigError, match="most: 2 is too few for 4 classes and 0 samples"):
        measure_traffic(Picky(), ["mlp-8"], (5,), 4, 2)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"mean": torch.zeros(3)}, "'mean' has shape"),
        ({"mean": torch.full((4,), float("nan"))}, "'mean' holds numbers that are not finite"),
        ({"more": torch.zeros(3)}, "'more' was not expected"),
        ({"mean": torch.zeros(4).double()}, "'mean' is of type"),
    ],
)
def test_a_wrong_upload_stops_the_round_and_leaves_the_last_one(sent: dict[str, Tensor], message: str) -> None:
    class Wrong(Tell):
        def upload(
            self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
        ) -> Payload:
            good = super().upload(net, collected, received, samples, round)
            return Payload({**good.tensors, **sent}, good.meta)

    of = federation(Wrong())
    before = {name: tensor.clone() for name, tensor in of.server.items()}
    with pytest.raises(PayloadError, match=f"client 0 sent an invalid upload: tensor {message}"):
        of.run(1)
    assert equal(of.server, before)
    assert of.rounds == 0
    assert all(held(of, number) is None for number in range(4))


def test_enrolment_is_a_round_zero_for_everybody() -> None:
    of = federation(Enrolling(), fraction=0.5)
    of.run(1)
    of.run(2)
    assert [record["round"] for record in of.history.rounds] == [0, 1, 2]
    assert of.history.rounds[0]["cohort"] == [0, 1, 2, 3]
    assert of.history.rounds[0]["all"] is None
    assert [record["cohort"] for record in of.history.rounds[1:]] == [of.cohort(1), of.cohort(2)]
    assert int(of.server["round"]) == 3
    assert of.rounds == of.history.summary["rounds"] == 2
    without = federation(Tell(), fraction=0.5)
    without.run(1)
    assert [record["round"] for record in without.history.rounds] == [1]


def test_the_server_starts_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    one = federation(seed=3)
    torch.manual_seed(2)
    assert equal(one.server, federation(seed=3).server)
    assert not equal(one.server, federation(seed=4).server)
    assert sum(tensor.numel() for tensor in one.server.values()) == 4 * 8 + 8 + 8 * 4 + 4


def test_bytes_and_operations_are_those_of_the_cohort() -> None:
    of = federation(fraction=0.5)
    (record,) = of.run(1).rounds
    down = of.job(0, Round(1, 1)).payload
    assert record["bytes_down"] == 2 * len(down.encode())
    assert record["tensor_bytes_up"] == record["tensor_bytes_down"] == 2 * 76 * 4
    sent = [Payload(down.tensors, {"samples": len(of.clients[number].train)}) for number in of.cohort(1)]
    assert record["bytes_up"] == sum(len(payload.encode()) for payload in sent)
    assert record["flops"] > 0
    alone = federation("standalone").run(1).rounds[0]
    assert alone["bytes_up"] == alone["bytes_down"] == 0


# ---- evaluation -----------------------------------------------------------------------------------------------------


def test_everyone_is_evaluated_before_the_server_combines() -> None:
    """A client always predicts the number of rounds that the server had combined when it was evaluated."""
    labels = torch.tensor([0, 1, 1, 2, 2, 2, 2])  # an accuracy says which of the classes was predicted
    members = clients(test=(samples(7)[0], labels))
    of = federation(Tell(), members, fraction=0.5, evaluate_every=1)
    history = of.run(3)
    for number, expected in ((1, 1 / 7), (2, 2 / 7), (3, 4 / 7)):
        record = history.rounds[number - 1]
        assert record["participants"]["accuracy"] == record["all"]["accuracy"] == pytest.approx(expected)
    assert history.client_accuracy == pytest.approx([4 / 7] * 4)


def test_participants_are_evaluated_every_round_and_all_when_due_and_last() -> None:
    history = federation("standalone", fraction=0.5, evaluate_every=3).run(7)
    assert [record["round"] for record in history.rounds if record["all"] is not None] == [3, 6, 7]
    assert all(record["participants"]["accuracy"] is not None for record in history.rounds)


def test_the_protocols_of_a_run_are_those_of_its_records() -> None:
    of = federation("standalone", clients(validation=samples(15, 77)), fraction=0.5, learning_rate=0.1, epochs=3)
    history = of.run(7)
    summary = history.summary
    accuracies = [accuracy for accuracy in history.client_accuracy if accuracy is not None]
    assert summary["all_last"] == pytest.approx(sum(accuracies) / 4)
    assert summary["all_last_round"] == 7
    best = max(record["participants"]["accuracy"] for record in history.rounds)
    assert summary["participants_best"] == best
    validated = [record["all"] for record in history.rounds if record["all"]]
    assert len(validated) == 4
    chosen = max(validated, key=lambda scores: scores["validation_accuracy"])
    assert summary["all_best_validation"] == chosen["accuracy"]


def test_evaluating_more_often_changes_nothing() -> None:
    often, seldom = (federation(fraction=0.5, evaluate_every=every) for every in (1, 100))
    often.run(4)
    seldom.run(4)
    assert equal(often.server, seldom.server)
    assert all(equal(held(often, number), held(seldom, number)) for number in range(4))


def test_clients_without_test_samples_do_not_count() -> None:
    members = [*clients(2), potluck.Client(net(9), samples(5))]
    history = federation("standalone", members).run(1)
    assert history.client_accuracy[2] is None
    first, second = history.client_accuracy[:2]
    assert first is not None and second is not None
    assert history.summary["all_last"] == pytest.approx((first + second) / 2)


# ---- going on -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["pfedes", "fedavg", "standalone"])
def test_going_on_is_running_at_once(algorithm: str) -> None:
    steps, once = (federation(algorithm, clients(equal=True), fraction=0.5) for _ in range(2))
    steps.run(2)
    steps.run(4)
    once.run(4)
    assert same_result(steps, once)
    before = [dict(record) for record in once.history.rounds]
    assert once.run(3).rounds == before  # four rounds are over already


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_change_nothing(workers: int) -> None:
    one, more = (federation(fraction=0.75, evaluate_every=1) for _ in range(2))
    one.engine, more.engine = (Loop(one.setting, workers=count) for count in (1, workers))
    one.run(3)
    more.run(3)
    assert same_result(one, more)


def test_another_seed_is_another_result() -> None:
    one, other = federation(seed=1), federation(seed=2)
    one.run(1)
    other.run(1)
    assert not same_result(one, other)


@pytest.mark.parametrize("event", ["train", "evaluate"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_is_stopped_goes_on_as_if_nothing_had_happened(event: str, workers: int) -> None:
    stopped, whole = (federation(fraction=0.5, evaluate_every=1) for _ in range(2))
    stopped.engine = Loop(stopped.setting, workers=workers)

    def watch(happened: dict[str, Any]) -> None:
        if stopped.rounds == 1 and happened["event"] == event:
            stopped.stop()

    try:
        stopped.run(3, watch=watch)
    except InterruptedRunError as error:
        # Within the handler, where the traceback still holds on to all that was going on.
        assert "after round 1" in str(error)
        assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]
        assert stopped.rounds == 1
        stopped.run(3)
    else:
        pytest.fail("it did not stop")
    whole.run(3)
    assert same_result(stopped, whole)


class Noting(Loop):
    """Holds on to all that it has begun."""

    begun: Any = None

    def train(self, *given: Any) -> Any:
        self.begun = super().train(*given)
        return self.begun

    def evaluate(self, *given: Any) -> Any:
        self.begun = super().evaluate(*given)
        return self.begun


@pytest.mark.parametrize("event", ["train", "evaluate"])
def test_an_engine_is_told_when_nobody_listens_any_more(event: str) -> None:
    of = federation("standalone", fraction=0.5, evaluate_every=1)
    engine = of.engine = Noting(of.setting)
    with pytest.raises(InterruptedRunError):
        of.run(1, watch=lambda happened: of.stop() if happened["event"] == event else None)
    assert engine.begun.gi_frame is None


class Failing(potluck.Algorithm):
    """Fails in round 2."""

    name: ClassVar[str] = "failing"
    title: ClassVar[str] = "Failing"
    paper: ClassVar[str] = "none"

    def phases(self, round: Round) -> Sequence[Phase]:
        return (Phase(train=("body", "head"), loss=self.broken if round.number == 2 else self.cross_entropy),)

    def broken(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        return batch.cross_entropy(net(batch.x)) * (float("nan") if len(batch.y) == 3 else 1.0)


def test_a_round_that_fails_leaves_the_last_one() -> None:
    of, whole = federation(Failing()), federation(Failing(), evaluate_every=1)
    whole.run(1)
    of.run(1)
    with pytest.raises(TrainingError, match="round 2"):
        of.run(2)
    assert same_result(of, whole)


def test_what_happens_is_told() -> None:
    events: list[Any] = []
    federation("standalone", fraction=0.5, evaluate_every=1).run(
        1, watch=lambda event: events.append((event["event"], event.get("done"), event.get("total")))
    )
    told = [("train", 1, 2), ("train", 2, 2), ("evaluate", 1, 2), ("evaluate", 2, 2), ("round", None, None)]
    assert [event for event in events if event[0] in ("train", "evaluate", "round")] == told


def test_precision() -> None:
    of = federation(precision="float64")
    of.run(1)
    assert {tensor.dtype for tensor in of.server.values()} == {torch.float64}
    state = held(of, 0)
    assert state is not None
    assert {tensor.dtype for tensor in state.values()} == {torch.float64}


# ---- wrong inputs ---------------------------------------------------------------------------------------------------

X, Y = samples(6)
SOFTMAX = nn.Sequential(nn.Linear(4, CLASSES), nn.Softmax(1))

WRONG_CLIENTS: dict[str, tuple[Any, type[PotluckError], str]] = {
    "labels too high": ({"train": (X, Y + 2)}, DataError, "client 1 has labels from"),
    "test labels too high": ({"test": (X, Y + 2)}, DataError, "client 1 has labels from"),
    "other inputs": ({"train": (X[:, :3], Y)}, DataError, "client 1 has train inputs of shape"),
    "other test inputs": ({"test": (X[:, :3], Y)}, DataError, "client 1 has test inputs of shape"),
    "no samples": ({"train": (X[:0], Y[:0])}, DataError, "client 1 has no training samples"),
    "softmax": ({"model": SOFTMAX}, ModelError, "model of client 1: .*softmax"),
    "other outputs": ({"model": nn.Linear(4, 5)}, ModelError, "3 and 5 outputs"),
}


@pytest.mark.parametrize(("wrong", "kind", "message"), WRONG_CLIENTS.values(), ids=WRONG_CLIENTS.keys())
def test_a_wrong_client_is_named(wrong: Any, kind: type[PotluckError], message: str) -> None:
    bad = potluck.Client(**{"model": net(), "train": (X, Y), **wrong})
    with pytest.raises(kind, match=message):
        federation(members=[potluck.Client(net(), (X, Y)), bad])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mu": 0.8}, "mu: 0.8 is not less than or equal to 0.5"),
        ({"epoch": 3}, "unknown setting 'epoch': did you mean 'epochs'"),
        ({"extractor_epoch": 3}, "did you mean 'extractor_epochs'"),
        ({"epochs": 0}, "epochs: 0 is not greater than or equal to 1"),
        ({"batch_size": "many"}, "batch_size: 'many'"),
        ({"fraction": 2}, "fraction"),
        ({"fraction": 0.1}, "selects nobody"),
        ({"seed": -1}, "seed"),
        ({"engine": "lop"}, "unknown engine 'lop'"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"precision": "float16"}, "precision"),
        ({"schedule": "linear"}, "'linear' is none of constant"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        federation(**settings)


def test_settings_may_be_written_as_text() -> None:
    of = federation(fraction="0.5", seed="3")
    assert of.cohort(1) == federation(fraction=0.5, seed=3).cohort(1)
    assert equal(of.server, federation(seed=3).server)


def test_an_unknown_algorithm_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown algorithm 'pfedse': did you mean 'pfedes'"):
        federation("pfedse")


def test_an_instance_has_its_settings_already() -> None:
    with pytest.raises(ConfigError, match="unknown settings mu"):
        federation(Tell(), mu=0.1)


def test_unlike_models_are_refused_where_all_must_be_equal() -> None:
    with pytest.raises(ConfigError, match="FedAvg needs one architecture"):
        federation("fedavg")


class Public(Tell):
    """Collects over public data."""

    needs: ClassVar[frozenset[Any]] = frozenset({"public data"})
    collects: ClassVar[Literal["train", "holdout", "public"] | None] = "public"


def test_public_data_are_asked_for_at_once() -> None:
    with pytest.raises(ConfigError, match="give public="):
        federation(Public())
    with pytest.raises(DataError, match="public data are"):
        federation(Public(), public=(X[:, :2], Y))
    of = federation(Public(), public=(X.numpy(), Y.numpy()))
    of.run(1)
    weights = [len(client.train) for client in of.clients]
    expected = sum(X.sum(0) / n * n / sum(weights) for n in weights)
    assert torch.allclose(of.server["mean"], torch.as_tensor(expected), atol=1e-6)


@pytest.mark.parametrize("rounds", [0, -1])
def test_at_least_one_round(rounds: int) -> None:
    with pytest.raises(ConfigError, match="rounds"):
        federation().run(rounds)


@pytest.mark.parametrize("x", [torch.zeros(2, 3), torch.zeros(4), torch.zeros(2, 4, 1), np.zeros((2, 5))])
def test_inputs_of_another_shape_are_refused(x: Any) -> None:
    of = federation()
    with pytest.raises(DataError, match=r"the clients have \(4,\)"):
        of.predict(0, x)


class StopsItself(Standalone):
    """Asks for a stop in the middle of a client's training, which would go on for days."""

    def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        FEDERATIONS[-1].stop()
        return super().cross_entropy(net, batch, received)


FEDERATIONS: list[Federation] = []


def test_stops_within_a_client() -> None:
    x, y = torch.randn(4, 3), torch.arange(4) % 2
    FEDERATIONS.append(Federation(StopsItself, [Client(nn.Linear(3, 2), train=(x, y))], epochs=10**6, device="cpu"))
    with pytest.raises(InterruptedRunError, match="stopped after round 0"):
        FEDERATIONS[-1].run(1)


def test_nobody_else_can_go_on_with_a_run_until_its_summary_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(folder: RunFolder, summary: dict[str, Any]) -> None:
        with pytest.raises(BusyRunError):
            RunFolder.open(folder.path).lock()
        really(folder, summary)

    really = RunFolder.finish
    monkeypatch.setattr(RunFolder, "finish", finish)
    Federation("standalone", clients(), device="cpu", out=tmp_path / "run").run(1)
    assert (tmp_path / "run/summary.json").is_file()
    RunFolder.open(tmp_path / "run").lock()
