"""What is decided once for all algorithms: odd clients, odd networks, odd rounds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import potluck
from potluck.algorithms import algorithm, names
from potluck.errors import ConfigError, ModelError

CLASSES = 4
QUIET: dict[str, Any] = {"watch": lambda _event: None}


def net(width: int = 6, norm: bool = False, representation: int = 5) -> nn.Module:
    torch.manual_seed(width)
    layers = [nn.Conv2d(1, width, 3), *([nn.BatchNorm2d(width)] if norm else []), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(4 * width, representation), nn.ReLU(), nn.Linear(representation, CLASSES))


def samples(count: int, labels: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    y = torch.tensor([labels[i % len(labels)] for i in range(count)])
    return torch.randn(count, 1, 4, 4, generator=generator) + y.view(-1, 1, 1, 1), y


def client(count: int, labels: list[int], **how: Any) -> potluck.Client:
    return potluck.Client(net(**how), train=samples(count, labels), test=samples(4, labels))


def federation(name: str, clients: list[potluck.Client], **settings: Any) -> potluck.Federation:
    public = samples(6, [0, 1, 2, 3]) if "public data" in algorithm(name).needs else None
    return potluck.Federation(name, clients, device="cpu", public=public, **{"batch_size": 4, **settings})


def check(run: potluck.Federation, rounds: int) -> None:
    history = run.run(rounds, **QUIET)
    assert all(accuracy is not None and 0 <= accuracy <= 1 for accuracy in history.client_accuracy)
    assert all(torch.isfinite(tensor).all() for tensor in run.server.values() if tensor.is_floating_point())
    for member in run.clients:
        assert torch.isfinite(run.predict(member, samples(3, [0])[0])).all()


@pytest.mark.parametrize("name", names())
def test_one_client_alone(name: str) -> None:
    check(federation(name, [client(9, [0, 1, 2])]), rounds=2)


@pytest.mark.parametrize("name", names())
def test_one_class_each_and_one_nobody_has(name: str) -> None:
    check(federation(name, [client(6, [0]), client(5, [1]), client(7, [2])]), rounds=2)


@pytest.mark.parametrize("name", names())
def test_batch_norm_and_a_last_batch_of_one_sample(name: str) -> None:
    """Nine samples in batches of four leave one, over which nothing can be normalised."""
    check(federation(name, [client(9, [0, 1], norm=True), client(9, [1, 2], norm=True)]), rounds=2)


@pytest.mark.parametrize("name", names())
def test_a_client_that_comes_late(name: str) -> None:
    """Whoever is sampled for the first time after many rounds starts from its own first weights and what all share."""
    clients = [client(6 + number, [number % 3, 3]) for number in range(5)]
    run = federation(name, clients, fraction=0.2, seed=1)
    order = [run.cohort(number)[0] for number in range(1, 10)]
    late = max(set(order), key=order.index)
    assert order.index(late) > 5
    check(run, rounds=order.index(late) + 1)


@pytest.mark.parametrize("name", [name for name in names() if "equal models" in algorithm(name).needs])
def test_unlike_models_are_refused_where_one_is_needed(name: str) -> None:
    with pytest.raises(ConfigError, match=r"needs one architecture on every client.*pfedes"):
        federation(name, [client(6, [0, 1]), client(6, [1, 2], width=7)])


@pytest.mark.parametrize("name", [name for name in names() if "equal width" in algorithm(name).needs])
def test_unlike_widths_are_refused_where_one_is_needed(name: str) -> None:
    with pytest.raises(ConfigError, match=r"widths? on every client, and these have 5, 7: .* takes any: .*pfedes"):
        federation(name, [client(6, [0, 1]), client(6, [1, 2], representation=7)])


@pytest.mark.parametrize("name", [name for name in names() if not algorithm(name).needs])
def test_any_widths_elsewhere(name: str) -> None:
    check(federation(name, [client(6, [0, 1]), client(6, [1, 2], representation=7, width=3)]), rounds=2)


@pytest.mark.parametrize("name", ["fedgh", "lg-fedavg", "fedclassavg"])
def test_a_head_of_another_kind_is_refused(name: str) -> None:
    odd = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, CLASSES, bias=False))
    other = potluck.Client(odd, train=samples(6, [0, 1]), test=samples(4, [0, 1]))
    with pytest.raises(
        ModelError, match=r"the model of client 1: .* shares one linear layer as the head of all models"
    ):
        federation(name, [client(6, [0, 1]), other])


def test_whole_models_are_averaged_with_their_batch_norm() -> None:
    run = federation("fedavg", [client(8, [0, 1], norm=True), client(8, [2, 3], norm=True)])
    run.run(1, **QUIET)
    held = [potluck.Networks(run.networks(member)).state("body") for member in run.clients]
    mean = run.server["body.1.running_mean"]
    assert torch.allclose(mean, (held[0]["body.1.running_mean"] + held[1]["body.1.running_mean"]) / 2)
    assert not any(path.endswith("num_batches_tracked") for path in run.server)


def test_batch_norm_stays_at_home_where_heads_travel() -> None:
    run = federation("lg-fedavg", [client(8, [0, 1], norm=True), client(8, [2, 3], norm=True)])
    run.run(2, **QUIET)
    assert set(run.server) == {"head.weight", "head.bias"}
    held = [potluck.Networks(run.networks(member)).state("body") for member in run.clients]
    assert not torch.equal(held[0]["body.1.running_mean"], held[1]["body.1.running_mean"])
