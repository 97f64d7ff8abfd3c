"""Clients side by side: the same results, however many workers there are and whatever goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from potluck.algorithms import State
from potluck.client import Client
from potluck.contract import Batch, Networks, Phase, Received, Round
from potluck.engines import Job, Outcome, Setting
from potluck.engines.loop import Loop
from potluck.errors import AlgorithmError
from potluck.payload import Payload

from .made_up import MadeUp, changed, cross_entropy, full_model, job, member, plain_model, samples, setting

ROUND = Round(1, 1)


def members(count: int = 7) -> list[Client]:
    """Of three architectures, with different amounts of data and weights."""
    return [
        member((plain_model, full_model, wide_model)[number % 3](number), count=5 + number, number=number)
        for number in range(count)
    ]


def wide_model(key: int) -> Any:
    return full_model(key, width=9)


def given(**more: Any) -> Setting:
    return setting(MadeUp(sent=("head",)), **{"momentum": 0.9, "dtype": torch.float32, "epochs": 3, **more})


def same(one: list[Outcome], other: list[Outcome]) -> bool:
    """Whether the outcomes are the same, in whatever order they came."""
    one, other = (sorted(outcomes, key=lambda outcome: outcome.client) for outcomes in (one, other))
    return all(
        a.client == b.client
        and changed(a.state, b.state) == set()
        and changed(dict(a.upload.tensors), dict(b.upload.tensors)) == set()
        and (a.loss, a.flops, a.evaluation) == (b.loss, b.flops, b.evaluation)
        for a, b in zip(one, other, strict=True)
    )


@pytest.fixture
def alone() -> list[Outcome]:
    return list(Loop(given(), workers=1).train(ROUND, [job(client) for client in members()]))


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Nobody may leave PyTorch with another number of threads."""
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def pool() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]


@pytest.mark.parametrize("workers", [2, 3, 10])
def test_results_do_not_depend_on_the_number_of_workers(workers: int, alone: list[Outcome]) -> None:
    engine = Loop(given(), workers=workers)
    together = list(engine.train(ROUND, [job(client) for client in members()]))
    assert [outcome.client for outcome in together] == list(range(7))
    assert same(alone, together)
    # Once more, on workers that have seen other clients.
    assert same(alone, list(engine.train(ROUND, [job(client) for client in members()])))
    held = {outcome.client: outcome.state for outcome in together}
    evaluations = list(engine.evaluate(job(client, held[client.id]) for client in members()))
    assert evaluations == [outcome.evaluation for outcome in alone]


def test_workers_really_run_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=60)
    seen: set[int] = set()

    def meet(net: Networks, batch: Batch, received: Received) -> Tensor:
        if bool(batch.x.any()):
            seen.add(threading.get_ident())
            meeting.wait()
        return cross_entropy(net, batch, received)

    phases = [Phase(train=("head",), loss=meet)]
    engine = Loop(setting(MadeUp(then=phases), batch_size=20), workers=2)
    assert len(list(engine.train(ROUND, [job(client) for client in members(2)]))) == 2
    assert len(seen) == 2


def failing(number: int) -> MadeUp:
    """Raises when it sees the samples of client ``number``."""
    x = samples(1, key=number)[0].float()

    def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
        if bool((batch.x == x).all(1).any()):
            raise ArithmeticError(f"client {number} failed")
        return cross_entropy(net, batch, received)

    return MadeUp(then=[Phase(train=("body", "head"), loss=loss)])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_failure_reaches_the_caller_and_the_engine_goes_on(workers: int) -> None:
    clients = members()
    engine = Loop(setting(failing(4), dtype=torch.float32), workers=workers)
    with pytest.raises(AlgorithmError, match="client 4 failed"):
        list(engine.train(ROUND, [job(client) for client in clients]))
    others = [client for client in clients if client.id != 4]
    expected = list(Loop(engine.setting, workers=1).train(ROUND, [job(client) for client in others]))
    assert same(expected, list(engine.train(ROUND, [job(client) for client in others])))


def test_outcomes_before_a_failure_come_first() -> None:
    engine = Loop(setting(failing(4), dtype=torch.float32), workers=2)
    done: list[int] = []
    with pytest.raises(AlgorithmError):
        for outcome in engine.train(ROUND, [job(client) for client in members()]):
            done.append(outcome.client)  # noqa: PERF401
    assert done == [0, 1, 2, 3]


def test_side_by_side_clients_with_the_most_to_do_come_first() -> None:
    engine = Loop(given(), workers=2)
    jobs = [job(client) for client in members()]
    assert [outcome.client for outcome in engine.train(ROUND, jobs)] == [0, 1, 2, 3, 4, 5, 6]
    again = list(engine.train(ROUND, jobs))
    assert [outcome.flops for outcome in again] == sorted((outcome.flops for outcome in again), reverse=True)
    assert len({outcome.flops for outcome in again}) > 1


def test_who_stops_half_way_leaves_no_thread_behind(alone: list[Outcome]) -> None:
    engine = Loop(given(), workers=2)
    outcomes = engine.train(ROUND, [job(client) for client in members()])
    next(outcomes)
    assert pool()
    outcomes.close()
    assert not pool()
    assert same(alone, list(engine.train(ROUND, [job(client) for client in members()])))


def test_states_are_read_by_the_caller_and_no_more_than_are_about_to_be_used() -> None:
    read: list[tuple[int, int]] = []

    def held(client: Client) -> Job:
        def get() -> State | None:
            read.append((client.id, threading.get_ident()))
            return None

        return Job(client, get, Payload())

    outcomes = Loop(given(), workers=2).train(ROUND, [held(client) for client in members()])
    next(outcomes)
    assert len(read) <= 4
    list(outcomes)
    assert read == [(number, threading.get_ident()) for number in range(7)]


def test_jobs_are_made_when_they_are_needed() -> None:
    made: list[int] = []

    def jobs() -> Iterator[Job]:
        for client in members():
            made.append(client.id)
            yield job(client)

    evaluations = Loop(given(), workers=2).evaluate(jobs())
    next(evaluations)
    assert len(made) <= 4
    assert [evaluation.client for evaluation in evaluations] == [1, 2, 3, 4, 5, 6]


def test_predicting_in_the_midst_of_a_round_disturbs_nobody(alone: list[Outcome]) -> None:
    clients = members()
    engine = Loop(given(), workers=2)
    expected = [engine.predict(job(client), client.test.x) for client in clients]
    outcomes = []
    for outcome in engine.train(ROUND, [job(client) for client in clients]):
        outcomes.append(outcome)
        for client in clients:
            assert torch.equal(engine.predict(job(client), client.test.x), expected[client.id])
            engine.networks(job(client))
    assert same(alone, outcomes)


def test_no_clients_no_outcomes() -> None:
    engine = Loop(given(), workers=2)
    assert list(engine.train(ROUND, [])) == []
    assert list(engine.evaluate([])) == []


def test_one_worker_per_core_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(3, timeout=60)
    used: set[int] = set()

    def meet(net: Networks, batch: Batch, received: Received) -> Tensor:
        if bool(batch.x.any()):
            used.add(torch.get_num_threads())
            meeting.wait()
        return cross_entropy(net, batch, received)

    made_up = setting(MadeUp(then=[Phase(train=("head",), loss=meet)]), batch_size=20)
    with monkeypatch.context() as patch:
        patch.setattr("potluck.engines.loop.torch.get_num_threads", lambda: 3)
        engine = Loop(made_up)
    assert len(list(engine.train(ROUND, [job(client) for client in members(6)]))) == 6
    assert used == {1}


def test_pytorch_gets_its_threads_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        engine = Loop(given(), workers=2)
        outcomes = engine.train(ROUND, [job(client) for client in members(3)])
        next(outcomes)
        outcomes.close()
        assert torch.get_num_threads() == 2
        list(engine.evaluate([job(client) for client in members(3)]))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
