"""What an algorithm sends per client and round: tried out between two clients and a server, without any training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from potluck import models
from potluck.algorithms import Algorithm, State, Upload
from potluck.algorithms.hooks import calling, given, given_tensors
from potluck.algorithms.uploads import cast
from potluck.client import Client
from potluck.contract import Batch, Networks, Round
from potluck.draws import initial_weights
from potluck.engines.base import Job
from potluck.engines.memory import receive, remembering
from potluck.errors import ConfigError
from potluck.joining import common_task
from potluck.payload import Payload

_ROUNDS = 2


@dataclass(frozen=True)
class Traffic:
    """Bytes that one client receives and sends in a round: of the numbers alone, and as encoded on the wire."""

    down: int
    up: int
    encoded_down: int
    encoded_up: int


def measure_traffic(
    algorithm: Algorithm, names: Sequence[str], shape: tuple[int, ...], classes: int, held: int, public: int = 1000
) -> Traffic:
    """Let two clients and the server exchange what they do in two rounds, and take what a client does in the second.

    Where an algorithm compresses what it sends this is the most: noise stands for training, and has every direction.

    Args:
        algorithm: With its settings.
        names: Networks of the clients; the two take the first two of them, or both the first if they must be equal.
        shape: Shape of one input.
        classes: Number of classes.
        held: How many of them a client has.
        public: Samples that everybody may see, where the algorithm needs them.
    """
    if not 1 <= held <= classes:
        raise ConfigError(f"a client cannot hold {held} of {classes} classes: give a number from 1 to {classes}.")
    taken = [names[0 if "equal models" in algorithm.needs else number % len(names)] for number in range(2)]
    if "equal width" in algorithm.needs:
        taken += [name for name in dict.fromkeys(names) if name not in taken]  # to see whether they all fit
    samples = torch.zeros(held, *shape), torch.arange(held)
    with initial_weights(0):
        clients = [Client(models.build(name, shape, classes), train=samples) for name in taken]
        task = replace(common_task(clients, algorithm), public=public if "public data" in algorithm.needs else 0)
        with calling(algorithm, "check_task"):
            algorithm.check_task(task)
        with calling(algorithm, "networks"):
            participants = [
                _Participant(
                    client.numbered(number), Networks(algorithm.networks(client.architecture.build(), task), task=task)
                )
                for number, client in enumerate(clients[:2])
            ]
        with calling(algorithm, "server_state"):
            state = cast(given_tensors(algorithm.server_state(task)), torch.float32)
        for number in range(0 if algorithm.enrolls else 1, _ROUNDS):
            round = Round(number, _ROUNDS)
            for client in participants:
                client.take_part(algorithm, state, samples, round)
            uploads = [Upload(each.client.id, each.sent) for each in participants]
            with calling(algorithm, "aggregate", round=round):
                state = given_tensors(algorithm.aggregate(state, uploads, round, task))
        first = participants[0]
        first.take_part(algorithm, state, samples, Round(_ROUNDS, _ROUNDS))
    return Traffic(
        first.arrived.tensor_bytes, first.sent.tensor_bytes, first.arrived.encoded_bytes, first.sent.encoded_bytes
    )


class _Participant:
    """A client: its networks, what it remembers, and what travelled when it last took part."""

    def __init__(self, client: Client, net: Networks) -> None:
        self.client, self.net = client, net
        self.held: State | None = None
        self.arrived, self.sent = Payload(), Payload()

    @torch.no_grad()
    def take_part(
        self, algorithm: Algorithm, state: State, samples: tuple[torch.Tensor, torch.Tensor], round: Round
    ) -> None:
        """Receive and send what a client does in a round. Noise stands for training, so that no update is empty."""
        net, client = self.net, self.client
        with calling(algorithm, "broadcast", client=client.id, round=round):
            self.arrived = given(Payload, algorithm.broadcast(state, client.id, round))
        received = receive(algorithm, Job(client, lambda: self.held, self.arrived), net.task)
        for module in net.modules.values():
            module.eval()
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=1e-3)
        collected = {}
        if algorithm.collects is not None:
            x, y = samples
            if algorithm.collects == "public":
                x, y = torch.zeros(net.task.public, *net.task.shape), torch.zeros(net.task.public, dtype=torch.int64)
            index = torch.arange(len(y))
            batch = Batch((x,), y, torch.ones(len(y)), index, index)
            with calling(algorithm, "collect", client=client.id, round=round):
                collected = given_tensors(algorithm.collect(net, batch, received))
        self.held = remembering(algorithm, {}, received)
        with calling(algorithm, "upload", client=client.id, round=round):
            self.sent = given(Payload, algorithm.upload(net, collected, received, len(samples[1]), round))
