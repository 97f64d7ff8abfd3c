"""The baselines equal their literal transcriptions too: float64, to 1e-9."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from potluck import Task, draws
from potluck.algorithms.fedapen import FedAPEN
from potluck.algorithms.fedkd import FedKD
from potluck.algorithms.fml import FML

from . import literal
from .literal.common import PartedClient
from .twin import PUBLIC, Twin, close, flat_layer, part, rule

KINDS = ["flat", "conv"]
SMALL = 5


class _Small:
    """A small model that is smooth, for inputs of 5 pixels."""

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        body = nn.Sequential(nn.Flatten(), nn.Linear(50, SMALL), nn.Tanh())
        return {"small_body": body, "small_head": nn.Linear(SMALL, task.classes)}


class SmallFML(_Small, FML):
    """FML with it."""


class SmallFedKD(_Small, FedKD):
    """FedKD with it."""


class SmallFedAPEN(_Small, FedAPEN):
    """FedAPEN with it."""


def small_body(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    return flat_layer(p, x, "small_body.1")


def small_head(p: Mapping[str, Tensor], representation: Tensor) -> Tensor:
    return representation @ p["small_head.weight"].T + p["small_head.bias"]


def clients(twin: Twin) -> list[PartedClient]:
    return [PartedClient(c.body, c.head, c.params, c.x, c.y) for c in twin.literal]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fml(seed: int) -> None:
    twin = Twin(SmallFML, seed, ["flat", "wide", "conv"], alpha=0.3, beta=0.6)
    expected = literal.fml(
        clients(twin), twin.cohorts, twin.batches(2), rule(), small_body, small_head, twin.server, alpha=0.3, beta=0.6
    )
    twin.compare(*expected)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("energy", [(0.95, 0.98), (0.3, 0.7)], ids=["nearly all", "low ranks"])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_fedkd(seed: int, energy: tuple[float, float], fraction: float) -> None:
    how: dict[str, Any] = {"energy_start": energy[0], "energy_end": energy[1], "mentee_learning_rate": 0.05}
    twin = Twin(SmallFedKD, seed, ["flat", "wide", "conv"], rounds=5, fraction=fraction, **how)
    expected = literal.fedkd(
        clients(twin), twin.cohorts, twin.batches(2), rule(), small_body, small_head,
        part(twin.server, "small_body", "small_head"), rule(0.05), t_start=energy[0], t_end=energy[1],
        diagonal="folded",
    )  # fmt: skip
    twin.compare({}, expected.held, server=False)
    close(part(twin.server, "small_body", "small_head"), expected.server[-1])
    rounds = [(r["tensor_bytes_down"] / 8, r["tensor_bytes_up"] / 8) for r in twin.federation.history.rounds]
    sent = zip(expected.downloaded, expected.uploaded, strict=True)
    assert rounds == [(sum(down.values()), sum(up.values())) for down, up in sent]
    if energy[0] == 0.3 and fraction == 0.5:
        numbers = {number for down in expected.downloaded for number in down.values()}
        assert min(numbers) < max(numbers) == 279 and len(numbers) > 2  # missed rounds were made up for in either way


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fedapen(seed: int) -> None:
    settings: dict[str, Any] = {"holdout": 0.3, "ensemble_epochs": 3, "ensemble_learning_rate": 0.2}
    twin = Twin(SmallFedAPEN, seed, KINDS, samples=(11, 4, 2, 9, 6), **settings)
    whole = []
    for member, c in zip(twin.federation._members, twin.literal, strict=True):
        (x, y), (aside_x, aside_y) = (data.take(torch.arange(len(data))) for data in (member.train, member.holdout))
        c.x, c.y = x, y
        whole.append(PartedClient(c.body, c.head, c.params, x, y, holdout_x=aside_x, holdout_y=aside_y))
    early, late = twin.batches(2), twin.batches(0, 2)
    aside = twin.batches(3, samples=lambda client: len(twin.federation._members[client].holdout))

    def batches(round: int, client: int, phase: int) -> list[list[int]]:
        if round == 1:
            return early(round, client, phase)
        return aside(round, client, phase) if phase == 0 else late(round, client, phase)

    expected = literal.fedapen(
        whole, twin.cohorts, batches, rule(), small_body, small_head, twin.server, adapt_learning_rate=0.2
    )
    twin.compare(*expected)
    assert any(float(held["ensemble.weight"]) != 0.5 for held in expected[1])
    # What predicts: the small model as received, not as the client trained it.
    number = twin.cohorts[-1][0]
    received, x = twin.federation.server, whole[number].x
    logits = literal.fedapen_predict(whole[number], expected[1][number], small_body, small_head, received, x)
    found = twin.federation.logits(number, x)
    torch.testing.assert_close(found, logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fd(seed: int) -> None:
    twin = Twin("fd", seed, ["flat", "wide", "conv"], distillation=0.7)
    kept, held = literal.fd(clients(twin), twin.cohorts, twin.batches(2), rule(), lam=0.7)
    twin.compare({}, held, server=False)
    server = twin.federation.server
    found = {
        (label, client): means
        for label, client, means in zip(
            server["labels"].tolist(), server["clients"].tolist(), server["means"], strict=True
        )
    }
    expected = {(label, client): means for label, sent in kept.items() for client, means in sent.items()}
    assert found.keys() == expected.keys()
    for key, means in expected.items():
        torch.testing.assert_close(found[key], means, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fedproto(seed: int) -> None:
    twin = Twin("fedproto", seed, KINDS, pull=1.7)
    prototypes, held = literal.fedproto(clients(twin), twin.cohorts, twin.batches(2), rule(), lam=1.7)
    twin.compare({}, held, server=False)
    server = twin.federation.server
    assert torch.nonzero(server["known"]).flatten().tolist() == sorted(prototypes)
    for label, prototype in prototypes.items():
        torch.testing.assert_close(server["prototypes"][label], prototype, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("margin", "gap"), [(100.0, "paper"), (100.0, "release"), (0.3, "paper")])
def test_fedtgp(seed: int, margin: float, gap: Literal["paper", "release"]) -> None:
    how: dict[str, Any] = {"server_epochs": 3, "server_batch_size": 2, "server_learning_rate": 0.2, "margin": margin}
    twin = Twin("fedtgp", seed, KINDS, pull=3.0, margin_rule=gap, **how)

    def order(round: int, epoch: int, count: int) -> list[int]:
        key = draws.fold(draws.fold(seed, "server", round), "order", epoch)
        return draws.permutation(key, count).tolist()

    run = literal.fedtgp(
        clients(twin), twin.cohorts, twin.batches(2), rule(), part(twin.server, "prototypes"),
        server_learning_rate=0.2, server_epochs=3, order=order, lam=3.0, tau=margin, server_batch=2,
        gap=gap,
    )  # fmt: skip
    twin.compare({**run.params[-1], "trained": torch.ones(1, dtype=torch.uint8)}, run.held)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ktpfl(seed: int) -> None:
    how: dict[str, Any] = {"coefficient_learning_rate": 20.0, "coefficient_steps": 2, "rho": 0.4, "temperature": 2.0}
    twin = Twin("kt-pfl", seed, ["flat", "wide", "conv"], public=True, transfer_learning_rate=0.05, **how)
    public, own = twin.batches(1, samples=lambda _client: PUBLIC), twin.batches(0, 2)

    def batches(round: int, client: int, phase: int) -> list[list[int]]:
        return public(round, client, phase) if phase == 0 else own(round, client, phase)

    expected = literal.ktpfl(
        clients(twin), twin.public, twin.cohorts, batches, rule(), steps=2, eta=20.0, rho=0.4, temperature=2.0,
        public_rule=rule(0.05),
    )  # fmt: skip
    twin.compare(*expected)
    row = twin.federation.server["coefficients"][twin.cohorts[-1][0]]
    assert float(row.max() - row.min()) > 0.01
