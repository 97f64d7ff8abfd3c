"""What a client remembers of what it received, beside its networks, where its algorithm asks for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from potluck.algorithms.base import Algorithm
from potluck.algorithms.hooks import calling, given_tensors
from potluck.algorithms.uploads import State
from potluck.contract import Received, Task
from potluck.engines.base import Job
from potluck.errors import PayloadError

_RECEIVED = "received:"
"""Begins the names of remembered tensors in a client's state; no path of a weight has a colon before its first dot."""


def weights_in(state: State) -> State:
    """The weights and buffers of a client's networks, without what it remembers."""
    return {name: tensor for name, tensor in state.items() if not name.startswith(_RECEIVED)}


def remembering(algorithm: Algorithm, weights: State, received: Received) -> State:
    """What a client holds after a round: its networks, and what it received if the algorithm has it remember that."""
    if not algorithm.remembers:
        return weights
    # Copies: what a client received may be the server's own tensors, or several names of one.
    kept = {f"{_RECEIVED}{name}": tensor.detach().to("cpu", copy=True) for name, tensor in received.items()}
    return {**weights, **kept}


@contextmanager
def received_by(client: int) -> Iterator[None]:
    """While active, an error about what arrived says at which client."""
    try:
        yield
    except PayloadError as error:
        raise PayloadError(f"what client {client} received is invalid: {error}") from error


def receive(algorithm: Algorithm, job: Job, task: Task) -> Received:
    """What arrived at a client, by what it remembers if it took part before."""
    held = job.held() if algorithm.remembers else None
    if held is None:
        with received_by(job.client.id), calling(algorithm, "receive", client=job.client.id):
            return given_tensors(algorithm.receive(job.payload, task))
    last = {name.removeprefix(_RECEIVED): tensor for name, tensor in held.items() if name.startswith(_RECEIVED)}
    with received_by(job.client.id), calling(algorithm, "receive_again", client=job.client.id):
        return given_tensors(algorithm.receive_again(job.payload, last, task))
