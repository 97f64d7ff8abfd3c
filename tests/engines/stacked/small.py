"""Small federations that have everything in them which is hard to stack."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from potluck import algorithms, draws
from potluck.algorithms import State
from potluck.client import Client
from potluck.data.examples import Examples
from potluck.data.transform import Transform
from potluck.engines.stacked import Stacked
from potluck.federation import Federation

SHAPE, CLASSES = (1, 8, 8), 4
DATA = ((9, 5, 3), (13, 4, 0), (5, 6, 2), (15, 3, 1), (10, 0, 4), (3, 2, 2))
"""Samples to train on, to test on and to choose by, of each client."""
QUICK: dict[str, dict[str, Any]] = {
    "pfedes": {"extractor_epochs": 2}, "fedapen": {"ensemble_epochs": 2}, "fedtgp": {"server_epochs": 5},
}  # fmt: skip
"""Settings with which an algorithm does the same, but less often."""
LABELS = (2, 3, 4, 4, 2, 1)
"""How many classes each client has."""


def samples(count: int, key: int, labels: int = CLASSES) -> tuple[Tensor, Tensor]:
    numbers = draws.spread(draws.fold(key, "samples"), torch.arange(count * torch.Size(SHAPE).numel()))
    return draws.uniform(numbers).reshape(count, *SHAPE).double(), torch.arange(count) % labels


def model(width: int, key: int) -> nn.Module:
    """With batch norm over images and over rows, and dropout of channels and of units."""
    with draws.initial_weights(key):
        return nn.Sequential(
            nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.Tanh(), nn.Dropout2d(0.2), nn.Flatten(),
            nn.Linear(36 * width, 6), nn.BatchNorm1d(6, momentum=None), nn.Tanh(), nn.Dropout(0.3),
            nn.Linear(6, CLASSES),
        )  # fmt: skip


class Unready(nn.Module):
    """Has no stacked form but in a trial, when it trains or when it predicts."""

    def __init__(self, training: bool) -> None:
        super().__init__()
        self.fails = training

    def forward(self, x: Tensor) -> Tensor:
        stacked = torch._C._functorch.is_functorch_wrapped_tensor(x)
        if stacked and (x.dtype, x.device.type) != (torch.float64, "cpu") and self.training == self.fails:
            raise RuntimeError("NYI: it is not there yet. At all")
        return x


def clients(equal: bool, one_source: bool = False) -> list[Client]:
    """Six clients of two architectures, or of one, each with data of its own or with rows of one source."""
    result = []
    source = samples(sum(sum(sizes) for sizes in DATA), key=7)
    start = 0
    for number, sizes in enumerate(DATA):
        data: list[Any] = []
        for place, count in enumerate(sizes):
            rows = torch.arange(start, start + count).flip(0)
            start += count
            own = samples(count, 100 * place + number, LABELS[number] if place == 0 else CLASSES)
            data.append(Examples(*source, rows) if one_source else own)
        net = model(2 if equal or number % 2 == 0 else 3, number)
        result.append(Client(net, train=data[0], test=data[1], validation=data[2]))
    return result


def federation(name: str, engine: str, *, one_source: bool = False, **settings: Any) -> Federation:
    """Six unequal clients, of whom four take part; two epochs of batches of four, augmented."""
    kind = algorithms.find(name)
    method = kind(
        **QUICK.get(name, {}), **{key: settings.pop(key) for key in list(settings) if key in kind.model_fields}
    )
    return Federation(
        method,
        clients("equal models" in method.needs, one_source),
        **{
            "fraction": 0.7, "engine": engine, "device": "cpu", "precision": "float64", "batch_size": 4, "epochs": 2,
            "evaluate_every": 2, "transform": Transform((0.5,), (0.25,), "release"),
            "public": samples(11, 300) if "public data" in method.needs else None, **settings,
        },
    )  # fmt: skip


def run(given: Federation, rounds: int = 3) -> list[dict[str, Any]]:
    """Run, and give every line that would be written for a round or a client."""
    written: list[dict[str, Any]] = []
    commit = given._record.commit_round

    def note(record: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        written.extend([record, *lines])
        commit(record, lines)

    given._record.commit_round = note  # type: ignore[method-assign, assignment]
    given.run(rounds, watch=lambda _: None)
    return written


def rounding(given: Federation) -> Federation:
    """With an engine that rounds numbers of clients up and keeps states on the device, as on a GPU."""
    given.engine = Stacked(given.setting, rounding=True, cache=1 << 20)
    return given


def held(given: Federation) -> dict[int, State]:
    """What each client that has trained holds."""
    states = {number: given._record.states.get(number) for number in range(len(given.clients))}
    return {number: state for number, state in states.items() if state is not None}


def assert_same(one: Federation, other: Federation, tolerance: float = 1e-9) -> None:
    """Run both: server, clients, evaluations, losses, bytes and operations are the same."""
    records = run(one), run(other)
    for first, second in zip(*records, strict=True):
        assert first.keys() == second.keys()
        for key in first.keys() - {"seconds", "loss", "observed"}:
            assert first[key] == second[key], (key, first, second)
        assert first.get("observed", {}) == pytest.approx(second.get("observed", {}), rel=0, abs=tolerance)
        if first.get("loss") is not None:
            assert abs(first["loss"] - second["loss"]) < tolerance
    close(one.server, other.server, tolerance)
    assert held(one).keys() == held(other).keys()
    for number, state in held(one).items():
        close(state, held(other)[number], tolerance)


def close(one: State, other: State, tolerance: float = 1e-9) -> None:
    assert list(one) == list(other)
    for name, tensor in one.items():
        assert tensor.dtype == other[name].dtype and tensor.device == other[name].device
        assert torch.allclose(tensor.double(), other[name].double(), rtol=0, atol=tolerance), name
