"""A federation, and the same clients for the transcriptions, which are to agree in float64 to 1e-9."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import potluck
from potluck import draws
from potluck.algorithms import Algorithm
from potluck.engines.batches import orders, sizes

from . import literal

SHAPE = (2, 5, 5)
CLASSES = 4
WIDTH = 6
SAMPLES = (11, 4, 1, 9, 6)  # unequal; one client has a single sample
PUBLIC = 7
ROUNDS = 3
TOLERANCE = 1e-9

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-2, "clip_norm": 0.5, "batch_size": 4, "epochs": 2,
}  # fmt: skip


def flat_net(width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(50, width), nn.Tanh(), nn.Linear(width, CLASSES))


def conv_net(width: int) -> nn.Module:
    layers = (nn.Conv2d(2, 3, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(27, width), nn.Tanh())
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def flat_layer(p: Mapping[str, Tensor], x: Tensor, name: str) -> Tensor:
    return torch.tanh(x.flatten(1) @ p[f"{name}.weight"].T + p[f"{name}.bias"])


def flat_body(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    return flat_layer(p, x, "body.1")


def conv_body(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    return flat_layer(p, torch.sigmoid(F.conv2d(x, p["body.0.weight"], p["body.0.bias"])), "body.3")


def head(p: Mapping[str, Tensor], representation: Tensor) -> Tensor:
    return representation @ p["head.weight"].T + p["head.bias"]


KINDS: dict[str, tuple[Callable[[], nn.Module], literal.Forward]] = {
    "flat": (lambda: flat_net(WIDTH), flat_body),
    "wide": (lambda: flat_net(2 * WIDTH), flat_body),
    "conv": (lambda: conv_net(WIDTH), conv_body),
}
"""Two networks whose representations are equally wide, and one whose are wider."""


def part(state: Mapping[str, Tensor], *names: str) -> dict[str, Tensor]:
    return {path: tensor.clone() for path, tensor in state.items() if path.startswith(tuple(f"{n}." for n in names))}


def close(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=TOLERANCE, atol=TOLERANCE, msg=name)


def rule(learning_rate: float | None = None) -> literal.Rule:
    rate = learning_rate or SETTINGS["learning_rate"]
    return literal.Rule(rate, SETTINGS["momentum"], SETTINGS["weight_decay"], SETTINGS["clip_norm"])


class Twin:
    """A federation, and what a transcription needs to know of it, before any round.

    Client k holds network ``kinds[k % len(kinds)]``. ``literal`` are its clients for the transcriptions; their
    parameters are all that the client holds.
    """

    def __init__(
        self,
        algorithm: str | type[Algorithm],
        seed: int,
        kinds: list[str],
        samples: tuple[int, ...] = SAMPLES,
        public: bool = False,
        rounds: int = ROUNDS,
        **settings: Any,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        clients = []
        self.literal: list[literal.PartedClient] = []
        for number, count in enumerate(samples):
            make, body = KINDS[kinds[number % len(kinds)]]
            with draws.initial_weights(seed + number % len(kinds)):
                model = make().double()
            x = torch.randn(count, *SHAPE, generator=generator, dtype=torch.float64)
            y = (number + torch.randint(0, 2, (count,), generator=generator)) % CLASSES  # two classes each
            clients.append(potluck.Client(model, train=(x, y), test=(x, y)))
            self.literal.append(literal.PartedClient(body, head, {}, x, y))
        self.public = torch.randn(PUBLIC, *SHAPE, generator=generator, dtype=torch.float64)
        how = {"fraction": 0.6, "seed": seed, "device": "cpu", "precision": "float64", **SETTINGS, **settings}
        seen = (self.public, torch.zeros(PUBLIC, dtype=torch.int64)) if public else None
        self.federation = potluck.Federation(algorithm, clients, public=seen, **how)
        for number, twin in enumerate(self.literal):
            twin.params = self.held(number)
        self.cohorts = [self.federation.cohort(number) for number in range(1, rounds + 1)]

    @property
    def server(self) -> dict[str, Tensor]:
        """A copy of what the server holds."""
        return {name: tensor.clone() for name, tensor in self.federation.server.items()}

    def held(self, client: int) -> dict[str, Tensor]:
        """A copy of what a client holds."""
        return potluck.Networks(self.federation.networks(client)).state()

    def batches(self, *epochs: int, samples: Callable[[int], int] | None = None) -> literal.Batches:
        """The library's order of samples, as positions, where the phases of a round last so many epochs.

        A client has as many as ``samples`` says; by default its training samples.
        """

        def of(round: int, client: int, phase: int) -> list[list[int]]:
            key = draws.fold(self.federation.config.seed, "train", round, client, phase)
            count = len(self.literal[client].y) if samples is None else samples(client)
            cut = sizes(count, SETTINGS["batch_size"], drop_single=False)
            result = []
            for epoch in range(epochs[phase]):
                order = orders(key, epoch, count, torch.device("cpu"))
                result += [positions.tolist() for positions in torch.split(order, cut)]
            return result

        return of

    def compare(self, state: Mapping[str, Tensor], held: list[dict[str, Tensor]], server: bool = True) -> None:
        """Run the federation, and find everything where the transcription puts it; perhaps all but the server's."""
        self.federation.run(len(self.cohorts))
        if server:
            close(self.federation.server, state)
        for number, expected in enumerate(held):
            close(part(self.held(number), *{path.split(".")[0] for path in expected}), expected)
