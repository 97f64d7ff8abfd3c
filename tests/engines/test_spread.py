"""Clients on several devices: here, on several that are the same CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from potluck.engines import Engine, Job, Outcome, find_devices
from potluck.engines.loop import Loop
from potluck.engines.spread import Spread
from potluck.errors import ConfigError, InterruptedRunError
from potluck.federation import Federation

from .stacked.small import assert_same, federation


def parts(given: Federation) -> list[Engine]:
    assert isinstance(given.engine, Spread)
    return given.engine._engines


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("name", ["pfedes", "fedgh", "kt-pfl"])
def test_two_devices_give_the_same_numbers(name: str, engine: str) -> None:
    spread = federation(name, engine, device="cpu,cpu", one_source=True)
    assert_same(federation(name, "loop", one_source=True), spread)
    assert spread.engine.name == engine and len(parts(spread)) == 2


def test_clients_share_data_on_every_device_and_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given = federation("pfedes", "loop", device="cpu,cpu,cpu", one_source=True, fraction=1.0)
    seen: dict[int, set[int]] = {}
    for place, engine in enumerate(parts(given)):

        def train(round: Any, jobs: list[Job], engine: Engine = engine, place: int = place) -> Iterator[Outcome]:
            seen.setdefault(place, set()).update(job.client.id for job in jobs)
            return Loop.train(engine, round, jobs)  # type: ignore[arg-type]

        monkeypatch.setattr(engine, "train", train)
    given.run(2, watch=lambda _: None)
    assert seen == {0: {0, 3}, 1: {1, 4}, 2: {2, 5}}
    members = given.engine._members  # type: ignore[attr-defined]
    assert len({id(members[number].train.whole_x) for number in range(6)}) == 1


def test_predictions_and_networks_of_any_client() -> None:
    one, two = (federation("pfedes", "loop", device=device) for device in ("cpu", "cpu,cpu"))
    for given in (one, two):
        given.run(1, watch=lambda _: None)
    for number in range(6):
        x = one.clients[number].train.x
        assert torch.equal(one.predict(number, x), two.predict(number, x))
        state = two.networks(number)["body"].state_dict()
        assert all(torch.equal(t, state[p]) for p, t in one.networks(number)["body"].state_dict().items())


def test_an_error_on_one_device_ends_the_round_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    given = federation("pfedes", "loop", device="cpu,cpu", fraction=1.0)

    def broken(*_: Any) -> Iterator[Outcome]:
        raise ValueError("this one is broken")
        yield

    monkeypatch.setattr(parts(given)[1], "train", broken)
    with pytest.raises(ValueError, match="this one is broken"):
        given.run(1, watch=lambda _: None)
    assert given.rounds == 0


def test_a_run_on_two_devices_stops_when_asked() -> None:
    given = federation("pfedes", "stacked", device="cpu,cpu", fraction=1.0)
    with pytest.raises(InterruptedRunError, match="stopped after round 1"):
        given.run(3, watch=lambda event: given.stop() if event["event"] == "round" else None)


def test_devices_are_listed_with_commas_and_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_devices("cuda:0, cuda:1") == [torch.device("cuda:0"), torch.device("cuda:1")]
    with pytest.raises(ConfigError, match="mixes CPUs and GPUs"):
        find_devices("cpu,cuda")
    with pytest.raises(ConfigError, match="unknown device ''"):
        find_devices("cuda,")
