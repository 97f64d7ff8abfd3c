"""One run as a table of rounds and a table of clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.metrics.protocol import History, summarize
from potluck.run.inputs import Inputs
from potluck.settings import flat

CLIENT_NUMBERS = (
    *("accuracy", "balanced_accuracy", "macro_f1", "validation_accuracy"),
    *("loss", "bytes_up", "bytes_down", "flops"),
)
"""What ``clients.jsonl`` says of a client in a round; what a client did not do is not a number."""


@dataclass(frozen=True)
class RoundResult:
    """A round in numbers: accuracies are unweighted means over clients, costs are sums over the cohort.

    Attributes:
        round: Its number; 0 is enrolment, before the first round.
        participants: Test accuracy of the cohort.
        everyone: Test accuracy of all clients, where all were evaluated.
        validation: Validation accuracy, of all clients where all were evaluated and else of the cohort.
        loss: Mean training loss.
        bytes_up: Bytes that clients sent, as encoded.
        bytes_down: Bytes that clients received, as encoded.
        flops: Floating-point operations of the cohort and of the server.
        server_flops: Those of the server alone.
        seconds: How long it took.
        epochs: Local epochs of the run's setting ``epochs``.
        record: Everything that ``rounds.jsonl`` says of it.
    """

    round: int
    participants: float | None
    everyone: float | None
    validation: float | None
    loss: float | None
    bytes_up: int
    bytes_down: int
    flops: int
    server_flops: int
    seconds: float
    epochs: int
    record: Mapping[str, Any]


@dataclass(frozen=True)
class ClientRecords:
    """The records of clients as columns of equal length, in the order in which they were written.

    Attributes:
        round: Round of each record.
        client: Client of each record.
        columns: The numbers of each record by name (:data:`CLIENT_NUMBERS`), NaN where there is none.
    """

    round: NDArray[np.int64]
    client: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.float64]]

    def at(self, round: int, column: str = "accuracy") -> dict[int, float]:
        """A number of each client that was evaluated in a round, by client."""
        rows = np.flatnonzero(self.round == round)
        return dict(sorted(zip(self.client[rows].tolist(), self.columns[column][rows].tolist(), strict=True)))


@dataclass(frozen=True)
class RunResult:
    """A run on disk, finished or not.

    Attributes:
        path: Its folder.
        config: Its configuration, as in ``config.toml``.
        rounds: Its rounds, in order.
        clients: What is known of each client in each round.
        written: What its ``summary.json`` says; None if it did not run to its end.
    """

    path: Path
    config: Mapping[str, Any]
    rounds: Sequence[RoundResult]
    clients: ClientRecords
    written: Mapping[str, Any] | None

    @property
    def finished(self) -> bool:
        """Whether it ran to its end."""
        return self.written is not None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The configuration under flat keys: ``settings["algorithm.mu"]``."""
        return flat(self.config)

    @property
    def algorithm(self) -> str:
        """Name of the algorithm."""
        return str(self.config["algorithm"]["name"])

    @property
    def algorithm_settings(self) -> dict[str, Any]:
        """The algorithm's own settings."""
        return {key: value for key, value in self.config["algorithm"].items() if key != "name"}

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["seed"])

    @cached_property
    def inputs(self) -> Inputs | None:
        """Digests of the data and models that it began with; None for runs that do not record them."""
        return Inputs.read(self.path)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What was asked, accuracy under each named protocol and costs, as far as the run got: as ``summary.json``."""
        return self.recorded if self.written is None else dict(self.written)

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """The same by the configuration and the records alone."""
        return summarize(self.config, History([dict(each.record) for each in self.rounds], self._last_accuracies()))

    @property
    def seconds(self) -> float:
        """How long all rounds took."""
        return sum(each.seconds for each in self.rounds)

    def _last_accuracies(self) -> list[float | None]:
        last = next((each.round for each in reversed(self.rounds) if each.record["all"] is not None), None)
        found = {} if last is None else self.clients.at(last)
        return [None if np.isnan(value) else value for value in found.values()]

    def accuracy(self, protocol: str = "all_last") -> float | None:
        """Test accuracy under a protocol of :mod:`potluck.metrics.protocol`; None where it has none."""
        value: float | None = self.summary[protocol]
        return value

    def round_of(self, protocol: str) -> int | None:
        """The round that a protocol reports; for ``all_best_validation`` the best by validation accuracy."""
        value: int | None = self.summary[f"{protocol}_round"]
        return value

    def client_accuracies(self, protocol: str = "all_last") -> dict[int, float]:
        """Test accuracy of each client under a protocol, NaN for one without test samples.

        Under ``participants_best`` these are the clients that took part in that round, and did not fail.
        """
        round = self.round_of(protocol)
        if round is None:
            return {}
        found = self.clients.at(round)
        if protocol != "participants_best":
            return found
        record = next(each.record for each in self.rounds if each.round == round)
        took_part = set(record["cohort"]) - set(record.get("failed") or ())
        return {client: value for client, value in found.items() if client in took_part}
