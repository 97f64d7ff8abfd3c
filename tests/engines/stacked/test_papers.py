"""None of the papers' methods falls back to loop with the papers' networks."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from potluck import algorithms, models
from potluck.client import Architecture, Client
from potluck.contract import Networks, Round
from potluck.federation import Federation

from .small import assert_same, close, held, run

SHAPE, CLASSES = (1, 16, 16), 3


def client(name: str) -> Client:
    architecture = Architecture(name, lambda: models.build(name, SHAPE, CLASSES))
    data = torch.zeros(4, *SHAPE, dtype=torch.uint8), torch.arange(4) % CLASSES
    return Client(architecture, train=data, test=data)


@pytest.mark.parametrize("name", algorithms.names())
def test_every_algorithm_can_be_stacked_with_the_papers_networks(name: str) -> None:
    method = algorithms.algorithm(name)
    numbers = (1,) if "equal models" in method.needs else (1, 2, 3, 4, 5)
    public = (torch.zeros(3, *SHAPE, dtype=torch.uint8), torch.arange(3)) if "public data" in method.needs else None
    clients = [client(f"cnn-{number}") for number in numbers]
    given = Federation(method, clients, engine="stacked", device="cpu", public=public)
    later = Round(2, 3)  # FedAPEN has one more phase from the second round on
    given.engine.prepare(later, (given.job(number, later) for number in range(len(clients))))
    assert given.engine.notes == given.prepare() == ()


def test_batches_in_one_pass_give_what_they_give_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """On both engines; on a GPU it is always so."""

    def trained(engine: str) -> Federation:
        clients = []
        for number, count in ((5, 6), (5, 4), (2, 5)):
            x = torch.randint(
                0, 256, (count, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(count)
            )
            data, name = (x, torch.arange(count) % CLASSES), f"cnn-{number}"
            clients.append(
                Client(Architecture(name, partial(models.build, name, SHAPE, CLASSES)), train=data, test=data)
            )
        settings: dict[str, Any] = {"engine": engine, "device": "cpu", "precision": "float64", "batch_size": 4}
        return Federation(algorithms.algorithm("pfedes"), clients, **settings)

    apart = trained("loop")
    run(apart)
    monkeypatch.setattr("potluck.contract.networks._JOINING", {"cpu"})
    plain, seen = Networks.__call__, set()

    def noted(self: Networks, x: Tensor) -> Tensor:
        seen.add(len(x))
        return plain(self, x)

    monkeypatch.setattr(Networks, "__call__", noted)
    joined = trained("loop")
    assert_same(joined, trained("stacked"))
    close(apart.server, joined.server)
    for number, state in held(apart).items():
        close(state, held(joined)[number])
    assert 8 in seen  # of batches of four
