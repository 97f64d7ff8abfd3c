"""A very small federation on which an algorithm is tried out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms import Algorithm
from potluck.client import Client
from potluck.contract import Batch, Networks, Phase, Received, Round
from potluck.data.examples import Examples
from potluck.engines.base import Job
from potluck.engines.memory import receive, weights_in
from potluck.engines.workshop import Workshop
from potluck.federation import Federation

SHAPE = (2, 6, 6)
CLASSES = 4
_SAMPLES = (9, 7, 12, 5)


def small_model(width: int) -> nn.Module:
    """A smooth network with dropout, so that no rounding flips a unit and every draw counts."""
    return nn.Sequential(
        nn.Conv2d(SHAPE[0], width, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16 * width, 8), nn.Tanh(), nn.Dropout(0.25),
        nn.Linear(8, CLASSES),
    )  # fmt: skip


def _samples(count: int, key: int, labels: int = CLASSES) -> tuple[Tensor, Tensor]:
    numbers = draws.spread(key, torch.arange(count * SHAPE[0] * SHAPE[1] * SHAPE[2]))
    x = draws.uniform(numbers).reshape(count, *SHAPE).double() * 2 - 1
    return x, torch.arange(count) % labels


class Bench:
    """Four unequal clients with two architectures (one, if the algorithm needs equal models), after two rounds.

    Client 0 holds two classes, client 3 one; nobody holds the last class.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        equal = "equal models" in algorithm.needs
        clients = []
        for number, samples in enumerate(_SAMPLES):
            with draws.initial_weights(number):
                model = small_model(3 if equal or number % 2 == 0 else 4)
            data = _samples(samples, number, labels=(2, 3, 3, 1)[number])
            clients.append(
                Client(model, train=data, test=_samples(4, 100 + number), validation=_samples(3, 200 + number))
            )
        self.federation = Federation(
            algorithm,
            clients,
            fraction=0.5,
            device="cpu",
            precision="float64",
            batch_size=4,
            public=_samples(6, 300) if "public data" in algorithm.needs else None,
        )
        self.federation.run(2, watch=lambda _: None)
        self.round = Round(3, 3, key=7)
        self.workshop = Workshop(self.federation.setting)

    @property
    def phases(self) -> list[Phase]:
        """All phases of a round."""
        return [*self.algorithm.adapt(self.round), *self.algorithm.phases(self.round)]

    def job(self, client: int) -> Job:
        """The work of a client in the third round."""
        return self.federation.job(client, self.round)

    def held(self, client: int) -> dict[str, Tensor]:
        """Every weight and buffer that a client holds."""
        job = self.job(client)
        held = job.held()
        return self.workshop.initial(job.client.architecture) if held is None else weights_in(held)

    def networks(self, client: int) -> Networks:
        """A client's networks on weights of their own."""
        net = Networks(self.workshop.make(self.job(client).client.architecture), task=self.federation.task)
        net.load(self.held(client))
        return net

    def received(self, client: int) -> Received:
        """What a client receives in the third round."""
        return receive(self.algorithm, self.job(client), self.federation.task)

    def batch(self, client: int, phase: Phase, size: int = 4) -> Batch:
        """The first samples of a client, as one batch."""
        data = self._data(client, phase.data)
        index = torch.arange(size) % len(data)
        x, y = data.take(index)
        return Batch((x,) * phase.views, y, torch.ones(size, dtype=x.dtype), index, draws.spread(client, index))

    def _data(self, client: int, name: str) -> Examples:
        public = self.federation.setting.public
        data: Examples = public if name == "public" and public is not None else getattr(self.job(client).client, name)
        return data
