"""What an engine is asked, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

import torch
from torch import nn

from potluck.algorithms.base import Algorithm
from potluck.algorithms.uploads import State
from potluck.client import Client
from potluck.contract import Round, Task
from potluck.data.examples import Examples
from potluck.data.transform import Transform
from potluck.engines.precision import Precision
from potluck.errors import InterruptedRunError
from potluck.metrics.accuracy import Evaluation
from potluck.payload import Payload
from potluck.training import Training


@dataclass(frozen=True)
class Setting:
    """Everything that clients of one federation have in common, and the sign to stop for all that work for it."""

    algorithm: Algorithm
    task: Task
    training: Training
    transform: Transform
    seed: int
    device: torch.device
    precision: Precision
    public: Examples | None = None
    stop: Event = field(default_factory=Event)

    @property
    def dtype(self) -> torch.dtype:
        """The type of weights and inputs."""
        return self.precision.dtype

    def check_stop(self) -> None:
        """Raise if the run was asked to stop."""
        if self.stop.is_set():
            raise InterruptedRunError("stopped.")


@dataclass(frozen=True)
class Job:
    """One client's work: its data, what it holds since it last trained (``None``: it never did), and what it receives.

    What it holds is its networks, and what else it remembers (:mod:`potluck.engines.memory`).
    """

    client: Client
    held: Callable[[], State | None]
    payload: Payload

    def read(self) -> Job:
        """The same work, with what the client holds read now, for whoever may not read it later."""
        state = self.held()
        return replace(self, held=lambda: state)


@dataclass(frozen=True)
class Outcome:
    """What a client's local training gave: what it now holds, what it sends, and how it went.

    The state is empty where the client itself keeps it.
    """

    client: int
    state: State
    upload: Payload
    loss: float
    flops: int
    evaluation: Evaluation


class Engine(ABC):
    """Trains and evaluates clients.

    Who stops listening half-way closes the generator, and then nothing of it runs any more; what was begun on a device
    comes to its end there.
    """

    name: str

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say about how clients execute, beyond the engine's name."""
        return ()

    def prepare(self, round: Round, jobs: Iterable[Job]) -> None:
        """Find out about clients like these what :attr:`notes` should say before a run begins."""
        del round, jobs  # most engines take any client

    @abstractmethod
    def train(self, round: Round, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        """Train the clients of a cohort, in any order: one outcome for each that could be reached.

        Until the last of them, nothing else is trained or evaluated: what clients hold may still be on the device.
        """

    @abstractmethod
    def evaluate(self, jobs: Iterable[Job]) -> Generator[Evaluation, None, None]:
        """Evaluate clients with what they hold, changing nothing."""

    @abstractmethod
    def networks(self, job: Job) -> dict[str, nn.Module]:
        """Copies of the networks that one client holds."""

    @abstractmethod
    def predict(self, job: Job, x: torch.Tensor) -> torch.Tensor:
        """Logits of one client for inputs like its own."""
