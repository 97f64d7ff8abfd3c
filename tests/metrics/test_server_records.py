"""The server's operations in the records of runs: a part of the total, the same on every engine and after a resume."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import potluck
from potluck import draws
from potluck.engines import worker
from potluck.federation import Federation


class Blind(nullcontext["Blind"]):
    """Counts nothing."""

    total = 0

    def __enter__(self) -> Blind:
        return self


SERVERS: dict[str, dict[str, Any]] = {
    "fedtgp": {"server_epochs": 3},
    "fedgh": {},
    "fedkd": {"small_model": "mlp-16"},
    "kt-pfl": {"public": 6},
    "fedproto": {},
}


def samples(count: int, key: int) -> tuple[Tensor, Tensor]:
    x = draws.uniform(draws.spread(key, torch.arange(count * 12))).reshape(count, 12)
    return x, torch.arange(count) % 3


def federation(method: str, **more: Any) -> Federation:
    own = dict(SERVERS[method])
    public = samples(own.pop("public"), 99) if "public" in own else None
    clients = []
    for number in range(4):
        with draws.initial_weights(number):
            model = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3))
        clients.append(potluck.Client(model, train=samples(6 + number, number), test=samples(3, 50 + number)))
    settings = {"device": "cpu", "batch_size": 4, "fraction": 0.5, "public": public, **own, **more}
    return Federation(method, clients, **settings)


def records(of: Federation) -> list[dict[str, Any]]:
    return [{**record, "seconds": 0} for record in of.history.rounds]


@pytest.mark.parametrize("method", SERVERS)
def test_the_total_is_what_clients_and_server_computed(method: str, tmp_path: Path) -> None:
    of = federation(method, out=tmp_path / "run")
    of.run(2)
    lines = [json.loads(line) for line in (tmp_path / "run/clients.jsonl").read_text().splitlines()]
    for record in of.history.rounds:
        clients = sum(line.get("flops", 0) for line in lines if line["round"] == record["round"])
        assert record["flops"] == clients + record["server_flops"]
        assert record["server_flops"] > 0 or record["round"] == 0
    for name in ("flops", "server_flops"):
        assert of.summary[name] == sum(record[name] for record in of.history.rounds)


@pytest.mark.parametrize("method", ["fedtgp", "fedkd"])
def test_both_engines_count_the_same(method: str) -> None:
    found = [federation(method, engine=engine, precision="float64") for engine in ("loop", "stacked")]
    for each in found:
        each.run(2)
    loop, stacked = ([(record["flops"], record["server_flops"]) for record in each.history.rounds] for each in found)
    assert loop == stacked


@pytest.mark.parametrize("method", SERVERS)
def test_a_run_that_goes_on_counts_as_one_that_never_stopped(method: str, tmp_path: Path) -> None:
    whole = federation(method)
    whole.run(3)
    first = federation(method, out=tmp_path / "run", checkpoint_every=1)

    def stop(event: dict[str, Any]) -> None:
        if event["event"] == "round" and event["round"] == 2:
            first.stop()

    with pytest.raises(potluck.errors.InterruptedRunError):
        first.run(3, watch=stop)
    again = federation(method, out=tmp_path / "run", checkpoint_every=1)
    again.restore()
    again.predict(0, samples(2, 7)[0])  # what it makes the server compute is no part of the run
    again.prepare()
    again.run(3)
    assert records(again) == records(whole)


def test_the_parts_that_a_client_makes_of_what_it_sends_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = federation("fedkd").run(1).rounds[0]
    monkeypatch.setattr(worker, "Counter", Blind)
    without = federation("fedkd").run(1).rounds[0]
    # Of each of the two clients the squares of a 16 x 12 and a 3 x 16 matrix, and their eigenvectors; products come on.
    least = 2 * (2 * 12 * 12 * 16 + 9 * 12**3 + 2 * 3 * 3 * 16 + 9 * 3**3)
    assert least <= counted["flops"] - without["flops"] < 1.5 * least
    assert counted["server_flops"] == without["server_flops"]
