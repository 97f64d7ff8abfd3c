"""None of the papers' methods falls back to loop with the papers' networks."""

from __future__ import annotations

import pytest
import torch

from potluck import algorithms, models
from potluck.client import Architecture, Client
from potluck.contract import Round
from potluck.federation import Federation

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
