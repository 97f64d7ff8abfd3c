"""FedKD: what travels, and the copies of the mentee that server and clients keep."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import potluck
from potluck import Payload, Round, Task, draws
from potluck.algorithms import State, Upload
from potluck.algorithms.admission import aggregated
from potluck.algorithms.fedkd import FedKD
from potluck.algorithms.parts import low_rank
from potluck.algorithms.parts.low_rank import product
from potluck.algorithms.parts.updates import updates_in
from potluck.contract import Received
from potluck.engines.memory import receive
from potluck.errors import PayloadError

from .test_special_cases import QUIET
from .twin import part

CLASSES, SIDE = 4, 20


class OverTheWire(FedKD):
    """FedKD whose clients get what arrives of a broadcast."""

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        return Payload.decode(super().broadcast(state, client, round).encode())


def federation(**settings: Any) -> potluck.Federation:
    """Six clients of two classes each, which are easy to learn; the mentee is an MLP."""
    members = []
    means = torch.randn(CLASSES, SIDE * SIDE, generator=torch.Generator().manual_seed(0))
    for number in range(6):
        generator = torch.Generator().manual_seed(number)
        with draws.initial_weights(number % 2):
            width = 8 + 4 * (number % 2)
            net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, width), nn.ReLU(), nn.Linear(width, CLASSES))
        y = (number + torch.arange(16) % 2) % CLASSES
        x = (torch.randn(16, SIDE * SIDE, generator=generator) + 2 * means[y]).view(16, 1, SIDE, SIDE)
        members.append(potluck.Client(net, train=(x, y), test=(x[:2], y[:2])))
    how = {"device": "cpu", "engine": "loop", "batch_size": 8, "learning_rate": 0.02, "evaluate_every": 100, **settings}
    return potluck.Federation(OverTheWire, members, small_model="mlp-256", **how)


def mentee(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return part(tensors, "small_body", "small_head")


def assert_same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def dense(run: potluck.Federation) -> int:
    return sum(tensor.nbytes for tensor in mentee(run.server).values())


# ---- whole runs -----------------------------------------------------------------------------------------------------


def test_bytes_where_all_take_part() -> None:
    run = federation()
    rounds = run.run(4, **QUIET).rounds
    whole = dense(run) * len(run.clients)
    assert rounds[0]["tensor_bytes_down"] == whole
    assert all(round["tensor_bytes_down"] <= 0.05 * whole for round in rounds[1:])


def test_bytes_where_half_of_them_take_part() -> None:
    run = federation(fraction=0.5)
    rounds = run.run(4, **QUIET).rounds
    new = set(rounds[3]["cohort"]).difference(*(round["cohort"] for round in rounds[:3]))
    missed = 3 * 0.05  # at most three updates
    assert rounds[3]["tensor_bytes_down"] <= (len(new) + missed * (3 - len(new))) * dense(run)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("energy", [0.6, 0.9999], ids=["updates", "and the mentee"])
def test_every_client_gets_the_mentee_of_the_server_to_the_last_bit(engine: str, energy: float) -> None:
    run = federation(fraction=0.5, engine=engine, energy_start=energy, energy_end=energy)
    sent: set[bool] = set()
    for number in range(1, 6):
        run.run(number, **QUIET)
        for client in range(len(run.clients)):
            job = run.job(client, Round(number + 1, number + 1))
            assert_same(mentee(receive(run.algorithm, job, run.task)), mentee(run.server))
            if job.held() is not None:
                sent.add(bool(updates_in(job.payload.tensors)))
    assert sent == ({True} if energy == 0.6 else {True, False})


# ---- what the server keeps of each client ---------------------------------------------------------------------------

TASK = Task((2, 3, 3), CLASSES, clients=4)
METHOD = FedKD(small_model="mlp-32", energy_start=0.5, energy_end=0.5)
MENTEE, UPDATE = 740, 122
"""How many numbers they are."""
META = {"samples": 1}


@cache
def fresh() -> State:
    """The server before round 1."""
    with draws.initial_weights(0):
        return METHOD.server_state(TASK)


def upload(number: int, client: int) -> Upload:
    """An update of rank 1, the same from every client."""
    generator = torch.Generator().manual_seed(number)
    tensors: dict[str, Tensor] = {}
    for name, tensor in mentee(fresh()).items():
        if tensor.ndim == 1:
            tensors[name] = torch.randn(len(tensor), generator=generator)
        else:
            tensors[f"{name}:left"] = torch.randn(len(tensor), 1, generator=generator)
            tensors[f"{name}:right"] = torch.randn(1, tensor.shape[1], generator=generator)
    return Upload(client, Payload(tensors, META))


def after(*cohorts: list[int]) -> State:
    """The server after rounds in which these clients took part."""
    state = fresh()
    for number, cohort in enumerate(cohorts, 1):
        uploads = [upload(number, client) for client in cohort]
        for one in uploads:
            METHOD.check(one, state, TASK)
        state = METHOD.aggregate(state, uploads, Round(number, 9), TASK)
    return state


def sent(state: State, client: int) -> Payload:
    """What a client is sent; it says nothing of the round."""
    return METHOD.broadcast(state, client, Round(50, 50))


def numbers(payload: Payload) -> int:
    return sum(tensor.numel() for tensor in payload.tensors.values())


@pytest.mark.parametrize(("missed", "expected"), [(0, UPDATE), (1, 2 * UPDATE), (5, 6 * UPDATE), (6, MENTEE)])
def test_missed_updates_are_sent_while_they_are_shorter_than_the_mentee(missed: int, expected: int) -> None:
    state = after([0, 1], *[[1]] * missed)
    assert numbers(sent(state, 0)) == expected
    assert numbers(sent(state, 1)) == UPDATE
    assert numbers(sent(state, 2)) == MENTEE  # for the first time
    assert sum(tensor.numel() for update in updates_in(state).values() for tensor in update.values()) < MENTEE


def test_updates_that_every_client_had_are_not_kept() -> None:
    assert list(updates_in(after([0, 1], [0], [1], [0, 1]))) == [4]
    assert list(updates_in(after([0, 1], [0], [0], [0]))) == [1, 2, 3, 4]


def test_a_client_whose_upload_was_lost_is_not_taken_to_have_what_it_was_sent() -> None:
    first = METHOD.receive(sent(fresh(), 0), TASK)
    second = METHOD.receive_again(sent(after([0, 1]), 0), first, TASK)
    state = after([0, 1], [1])  # client 0 took part in both
    assert list(updates_in(sent(state, 0).tensors)) == [1, 2]
    assert_same(mentee(METHOD.receive_again(sent(state, 0), first, TASK)), mentee(state))
    assert_same(mentee(METHOD.receive_again(sent(state, 0), second, TASK)), mentee(state))


def test_who_sends_what_cannot_be_shortened_is_named() -> None:
    """Its product is finite, and the length of a row of it is not."""
    huge = Upload(1, Payload({n: torch.full_like(t, 1.8e19) for n, t in upload(1, 1).payload.tensors.items()}, META))
    METHOD.check(huge, fresh(), TASK)
    with pytest.raises(PayloadError, match="because of what client 1 sent"):
        aggregated(METHOD, fresh(), [upload(1, 0), huge], Round(1, 9), TASK)


def test_who_sends_parts_whose_product_is_not_finite_is_named() -> None:
    """The check looks at the parts alone."""
    infinite = Upload(1, Payload({n: torch.full_like(t, 1e30) for n, t in upload(1, 1).payload.tensors.items()}, META))
    METHOD.check(infinite, fresh(), TASK)
    with pytest.raises(PayloadError, match="because of what client 1 sent"):
        aggregated(METHOD, fresh(), [upload(1, 0), infinite], Round(1, 9), TASK)


def test_uploads_are_multiplied_out_once_and_not_in_the_order_of_the_clients_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ordered: list[torch.Size] = []

    def counting(left: Tensor, right: Tensor) -> Tensor:
        ordered.append(left.shape)
        return product(left, right)

    monkeypatch.setattr(low_rank, "product", counting)
    state = after([0, 1, 2, 3])
    sent_on = [name for name in updates_in(state)[1] if name.endswith(":left")]
    assert len(ordered) == len(sent_on) > 0  # what is sent on alone, for clients will add the same


def updates(state: State, changed: Mapping[str, Tensor] | None = None) -> Payload:
    """What client 0 is sent, and what was changed in it on the way."""
    payload = sent(state, 0)
    return Payload({**payload.tensors, **(changed or {})}, payload.meta)


@pytest.mark.parametrize(
    ("payload", "last", "message"),
    [
        (updates(after([0])), None, "the client has none"),
        (updates(after([0])), {}, "the client has none"),
        (updates(after([0], [0])), 0, "has had 0 updates cannot have 2"),
        (updates(after([0], [0])), 3, "has had 3 updates cannot have 2"),
        (Payload(updates(after([0])).tensors), 0, "None as its number of updates"),
        (Payload(updates(after([0])).tensors, {"updates": -1}), 0, "-1 as its number"),
        (Payload(updates(after([0])).tensors, {"updates": 1 << 61}), 0, "cannot have"),
        (Payload(mentee(fresh()), {"updates": True}), None, "True as its number"),
        (Payload({**mentee(fresh()), "more": torch.ones(1)}, {"updates": 0}), None, "'more' was not expected"),
        (Payload(part(fresh(), "small_head"), {"updates": 0}), None, "'small_body.1.bias' is missing"),
        (Payload(part(fresh(), "small_head"), {"updates": 0}), 0, "'small_body.1.bias' is missing"),
        (updates(after([0]), {"update:1:more": torch.ones(1)}), 0, "'more' was not expected"),
        (updates(after([0]), {"update:one:w": torch.ones(1)}), 0, "'update:one:w' names no number of an update"),
        (updates(after([0]), {f"update:{'1' * 5000}:w": torch.ones(1)}), 0, "names no number of an update"),
        (updates(after([0]), {"update:1:small_head.bias": torch.full((4,), torch.nan)}), 0, "not finite"),
    ],
)
def test_what_a_client_cannot_add_up_is_refused(payload: Payload, last: Any, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        if last is None:
            METHOD.receive(payload, TASK)
        else:
            held: Received = last if isinstance(last, dict) else {**mentee(fresh()), "updates": torch.tensor(last)}
            METHOD.receive_again(payload, held, TASK)
