"""On a GPU: the same numbers, from steps that are recorded and wait for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from potluck import algorithms
from potluck.client import Architecture, Client
from potluck.data.transform import Transform
from potluck.engines.stacked import Stacked
from potluck.engines.stacked.program import Program
from potluck.engines.stacked.track import Track
from potluck.federation import Federation
from potluck.models import build

from .small import QUICK, Unready, assert_same, federation, held

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def tracks(given: Federation) -> Iterator[Track]:
    assert isinstance(given.engine, Stacked)
    for resident in given.engine._roster._residents.values():
        yield from resident._tracks.values()


@pytest.mark.parametrize("name", algorithms.names())
def test_every_algorithm_on_a_gpu(name: str) -> None:
    stacked = federation(name, "auto", device="cuda")
    assert_same(federation(name, "loop", device="cuda"), stacked)
    assert stacked.engine.name == "stacked" and stacked.engine.notes == ()
    for track in tracks(stacked):
        assert all(program._recording is not None for program in track._kept.get(Program, {}).values())
        assert not track.studio._refused  # nor is anything that is predicted or collected


def test_the_gpu_computes_what_the_cpu_does() -> None:
    assert_same(federation("pfedes", "loop"), federation("pfedes", "stacked", device="cuda"), tolerance=1e-7)


def normalized() -> nn.Module:
    """With batch norm over few channels, for which convolutions have kernels, over more, and over rows."""
    return nn.Sequential(
        nn.Conv2d(3, 12, 5), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 70, 5, stride=3), nn.BatchNorm2d(70),
        nn.ReLU(), nn.Flatten(), nn.Linear(4480, 500), nn.BatchNorm1d(500), nn.ReLU(), nn.Linear(500, 4),
    )  # fmt: skip


def papers(name: str, engine: str, device: str = "cuda") -> Federation:
    """Clients with networks of the papers, and with batch norm: there are kernels for both; and images of colours."""
    source = torch.Generator().manual_seed(0)
    clients = []
    kinds = ("cnn-1", "cnn-2", "cnn-5", "cnn-5", "normalized", "normalized")
    for kind, count in zip(kinds, (40, 33, 50, 9, 40, 50), strict=True):
        data = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=source), torch.arange(count) % 4
        make = normalized if kind == "normalized" else partial(build, kind, (3, 32, 32), 4)
        clients.append(Client(Architecture(kind, make), train=data, test=data))
    settings: dict[str, Any] = {"batch_size": 32, "epochs": 2, "precision": "float32", "device": device}
    transform = Transform((0.5, 0.5, 0.5), (0.25, 0.25, 0.25), "release")
    return Federation(
        algorithms.find(name)(**QUICK.get(name, {})), clients, engine=engine, transform=transform, **settings
    )


@pytest.mark.parametrize("name", ["pfedes", "fedproto", "fml"])
def test_kernels_compute_what_pytorch_does(name: str) -> None:
    loop, stacked = papers(name, "loop"), papers(name, "stacked")
    for given in (loop, stacked):
        given.run(1, watch=lambda _: None)
    for number, state in held(loop).items():
        apart = [(state[path] - other).double().norm() for path, other in held(stacked)[number].items()]
        size = torch.stack([tensor.double().norm() for tensor in state.values()]).norm()
        assert torch.stack(apart).norm() < 1e-3 * size
    assert stacked.engine.notes == ()


@pytest.mark.usefixtures("steps_may_fail")
@pytest.mark.parametrize("training", [True, False])
def test_clients_whose_steps_fail_begin_anew_on_loop(training: bool) -> None:
    def clients() -> list[Client]:
        nets = [
            nn.Linear(6, 4),
            *(nn.Sequential(nn.Linear(6, 5), Unready(training), nn.Linear(5, 4)) for _ in "1234567"),
        ]
        for number, net in enumerate(nets):
            torch.manual_seed(number)
            for parameter in net.parameters():
                nn.init.normal_(parameter)
        source = torch.Generator().manual_seed(0)
        data = [(torch.randn(20 + number, 6, generator=source), torch.arange(20 + number) % 4) for number in range(8)]
        return [Client(net, train=own, test=own) for net, own in zip(nets, data, strict=True)]

    settings: dict[str, Any] = {"batch_size": 8, "epochs": 2, "precision": "float64", "device": "cuda"}
    loop, stacked = (
        Federation(algorithms.find("standalone")(), clients(), engine=engine, **settings)
        for engine in ("loop", "stacked")
    )
    assert_same(loop, stacked)  # seven of them were four, two and one, side by side
    (note,) = stacked.engine.notes
    assert "run on the loop engine, one by one: RuntimeError: NYI" in note


@pytest.mark.parametrize("recorded", [True, False])
def test_no_step_waits_for_the_gpu(recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Program.step
    made: list[Program] = []

    def step(program: Program) -> None:
        made.append(program)
        if not recorded:
            program._recording = None
        torch.cuda.set_sync_debug_mode("error")
        try:
            original(program)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(Program, "step", step)
    stacked = federation("pfedes", "stacked", device="cuda")
    stacked.run(2, watch=lambda _: None)
    assert made and stacked.engine.notes == ()
