"""pFedES with batch norm: the model normalises both inputs, and predicts on the original data alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import potluck
from potluck import draws
from potluck.engines.stacked import Stacked

SHAPE, CLASSES, SAMPLES = (2, 6, 6), 3, 12
QUIET: dict[str, Any] = {"watch": lambda _: None}


def model(key: int) -> nn.Module:
    with draws.initial_weights(key):
        return nn.Sequential(
            nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=None), nn.Tanh(), nn.Flatten(),
            nn.Linear(48, CLASSES),
        ).double()  # fmt: skip


def samples(key: int) -> tuple[Tensor, Tensor]:
    numbers = draws.spread(draws.fold(key, "samples"), torch.arange(SAMPLES * 72))
    return 3 + draws.uniform(numbers).double().reshape(SAMPLES, *SHAPE), torch.arange(SAMPLES) % CLASSES


def federation(engine: str, **settings: Any) -> potluck.Federation:
    clients = [potluck.Client(model(key), train=samples(key), test=samples(key + 9)) for key in range(2)]
    plain = {"engine": engine, "device": "cpu", "precision": "float64", "batch_size": SAMPLES, "mu": 0.5}
    return potluck.Federation("pfedes", clients, **{**plain, **settings})


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for path, tensor in expected.items():
        torch.testing.assert_close(found[path], tensor, rtol=1e-9, atol=1e-9, msg=path)


@pytest.mark.parametrize("training", ["iterative", "simultaneous"])
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_running_statistics_are_those_of_the_original_data(engine: str, training: str) -> None:
    run = federation(engine, epochs=1, training=training)
    run.run(1, **QUIET)
    assert run.engine.notes == ()
    for key, client in enumerate(run.clients):
        # One step on all samples: what plain training with the initial weights leaves behind.
        plain = nn.Sequential(*list(model(key).children())[:-1])
        plain(samples(key)[0])
        same(dict(run.networks(client)["body"].named_buffers()), dict(plain.named_buffers()))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_they_follow_the_original_data_through_every_step(engine: str) -> None:
    run = federation(engine, epochs=3)
    run.run(2, **QUIET)
    for key, client in enumerate(run.clients):
        first = model(key).get_submodule("0")  # what it sees does not depend on any weight
        for _ in range(6):
            first(samples(key)[0])
        same(dict(run.networks(client)["body"].get_submodule("0").named_buffers()), dict(first.named_buffers()))


def test_both_engines_agree() -> None:
    loop, stacked = (federation(engine, epochs=2, batch_size=5) for engine in ("loop", "stacked"))
    assert isinstance(stacked.engine, Stacked)
    for run in (loop, stacked):
        run.run(2, **QUIET)
    for number in range(len(loop.clients)):
        same(*(potluck.Networks(run.networks(number)).state() for run in (loop, stacked)))
