"""Each algorithm equals the literal transcription of its paper's equations: float64, to 1e-9."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import potluck
from potluck import draws
from potluck.engines.batches import orders, sizes

from . import literal

SHAPE = (2, 5, 5)
CLASSES = 4
SAMPLES = (11, 4, 1, 9, 6)  # unequal; one client has a single sample
ROUNDS = 3
TOLERANCE = 1e-9

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-2, "clip_norm": 0.5, "batch_size": 4, "epochs": 2,
}  # fmt: skip


def flat_net(width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(50, width), nn.Tanh(), nn.Linear(width, CLASSES))


def flat_forward(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    hidden = torch.tanh(x.flatten(1) @ p["body.1.weight"].T + p["body.1.bias"])
    return hidden @ p["head.weight"].T + p["head.bias"]


def conv_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(27, CLASSES))


def conv_forward(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    hidden = torch.sigmoid(F.conv2d(x, p["body.0.weight"], p["body.0.bias"]))
    return hidden.flatten(1) @ p["head.weight"].T + p["head.bias"]


def extract(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    hidden = F.conv2d(x, p["extractor.0.weight"], p["extractor.0.bias"], padding=1).clamp(min=0)
    return F.conv2d(hidden, p["extractor.2.weight"], p["extractor.2.bias"], padding=1).clamp(min=0)


def part(state: Mapping[str, Tensor], *names: str) -> dict[str, Tensor]:
    return {path: tensor.clone() for path, tensor in state.items() if path.startswith(tuple(f"{n}." for n in names))}


class Twin:
    """A federation, and the same clients for the transcription, before any round."""

    def __init__(self, algorithm: str, seed: int, kinds: list[str], **settings: Any) -> None:
        makers: dict[str, tuple[Callable[[], nn.Module], literal.Forward]] = {
            "flat": (lambda: flat_net(7), flat_forward),
            "wide": (lambda: flat_net(12), flat_forward),
            "conv": (conv_net, conv_forward),
        }
        generator = torch.Generator().manual_seed(seed)
        clients, self.literal = [], []
        for number, count in enumerate(SAMPLES):
            make, forward = makers[kinds[number % len(kinds)]]
            with draws.initial_weights(seed + number % len(kinds)):
                model = make().double()
            x = torch.randn(count, *SHAPE, generator=generator, dtype=torch.float64)
            y = torch.randint(0, CLASSES, (count,), generator=generator)
            clients.append(potluck.Client(model, train=(x, y), test=(x, y)))
            self.literal.append(literal.LiteralClient(forward, {}, x, y))
        self.federation = potluck.Federation(
            algorithm, clients, fraction=0.6, seed=seed, device="cpu", precision="float64", **SETTINGS, **settings
        )
        for client, twin in zip(clients, self.literal, strict=True):
            twin.params = part(self.state(client), "body", "head")
        self.cohorts = [self.federation.cohort(number) for number in range(1, ROUNDS + 1)]

    def state(self, client: potluck.Client) -> dict[str, Tensor]:
        return potluck.Networks(client.networks()).state()

    def batches(self, epochs: tuple[int, ...]) -> literal.Batches:
        """The library's order of samples, as positions."""

        def of(round: int, client: int, phase: int) -> list[list[int]]:
            key = draws.fold(self.federation.config.seed, "train", round, client, phase)
            cut = sizes(SAMPLES[client], SETTINGS["batch_size"], drop_single=False)
            result = []
            for epoch in range(epochs[phase]):
                order = orders(key, epoch, SAMPLES[client], torch.device("cpu"))
                result += [positions.tolist() for positions in torch.split(order, cut)]
            return result

        return of

    def compare(self, server: Mapping[str, Tensor], held: list[dict[str, Tensor]]) -> None:
        """Run the federation, and find everything where the transcription puts it."""
        self.federation.run(ROUNDS)
        close(self.federation.server, server)
        for client, expected in zip(self.federation.clients, held, strict=True):
            close(part(self.state(client), "body", "head"), expected)


def close(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=TOLERANCE, atol=TOLERANCE, msg=name)


def rule(learning_rate: float | None = None) -> literal.Rule:
    rate = learning_rate or SETTINGS["learning_rate"]
    return literal.Rule(rate, SETTINGS["momentum"], SETTINGS["weight_decay"], SETTINGS["clip_norm"])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pfedes(seed: int) -> None:
    twin = Twin("pfedes", seed, ["flat", "wide", "conv"], mu=0.3, extractor_epochs=3)
    theta = {name: tensor.clone() for name, tensor in twin.federation.server.items()}
    expected = literal.pfedes(twin.literal, twin.cohorts, twin.batches((2, 3)), rule(), extract, theta, mu=0.3)
    twin.compare(*expected)
    assert not torch.equal(twin.federation.server["extractor.0.weight"], theta["extractor.0.weight"])


def test_pfedes_with_a_learning_rate_of_the_extractors_own() -> None:
    twin = Twin("pfedes", 3, ["flat", "conv"], mu=0.5, extractor_epochs=1, extractor_learning_rate=0.03)
    theta = {name: tensor.clone() for name, tensor in twin.federation.server.items()}
    expected = literal.pfedes(
        twin.literal, twin.cohorts, twin.batches((2, 1)), rule(), extract, theta, mu=0.5, extractor_rule=rule(0.03)
    )
    twin.compare(*expected)


@pytest.mark.parametrize("seed", [0, 1])
def test_pfedes_simultaneous(seed: int) -> None:
    twin = Twin("pfedes", seed, ["flat", "conv"], mu=0.4, training="simultaneous")
    theta = {name: tensor.clone() for name, tensor in twin.federation.server.items()}
    expected = literal.pfedes_simultaneous(
        twin.literal, twin.cohorts, twin.batches((2,)), rule(), extract, theta, mu=0.4
    )
    twin.compare(*expected)


@pytest.mark.parametrize(("seed", "kind"), [(0, "flat"), (1, "conv"), (2, "conv")])
def test_fedavg(seed: int, kind: str) -> None:
    twin = Twin("fedavg", seed, [kind])
    initial = {name: tensor.clone() for name, tensor in twin.federation.server.items()}
    twin.compare(*literal.fedavg(twin.literal, twin.cohorts, twin.batches((2,)), rule(), initial))


def test_standalone_is_fedavg_that_never_receives() -> None:
    """Each client alone: FedAvg with itself as the whole federation."""
    twin = Twin("standalone", 4, ["flat", "conv"])
    held = []
    for number, client in enumerate(twin.literal):
        mine = [[number] if number in cohort else [] for cohort in twin.cohorts]
        everyone = list(twin.literal)
        held.append(literal.fedavg(everyone, mine, twin.batches((2,)), rule(), client.params)[0])
    twin.compare({}, held)


def test_the_case_has_what_it_is_meant_to_have() -> None:
    """Somebody is never sampled in some seed, and cohorts differ."""
    never = [
        set(range(5)) - {c for cohort in Twin("standalone", s, ["flat"]).cohorts for c in cohort} for s in range(3)
    ]
    assert any(never)
    assert all(len(cohort) == 3 for cohort in Twin("standalone", 0, ["flat"]).cohorts)
