"""The three named protocols under which an accuracy is reported.

A client's accuracy is measured with the networks it holds after its local training and before the server combines;
clients outside the cohort are measured with what they last held. A mean over clients is unweighted.

- ``all_last``: all clients, last round. The headline.
- ``all_best_validation``: all clients, in the round that was best by validation accuracy. None without validation data.
- ``participants_best``: the clients of a round's cohort, best round by test accuracy. What the papers report; it picks
  among noisy means on test data, and is optimistic by several points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from potluck.metrics.accuracy import Evaluation
from potluck.metrics.early_stop import standing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEANING = {
    "all_last": "all clients, last round",
    "all_best_validation": "all clients, best round by validation",
    "participants_best": "participants, best round (the papers' protocol)",
}

_SCORES = ("accuracy", "balanced_accuracy", "macro_f1")


def client_scores(evaluation: Evaluation) -> dict[str, float | None]:
    """One client's scores as they are recorded."""
    test, validation = evaluation.test, evaluation.validation
    scores: dict[str, float | None] = {name: getattr(test, name) if test else None for name in _SCORES}
    return {**scores, "validation_accuracy": validation.accuracy if validation else None}


def mean_scores(evaluations: Sequence[Evaluation]) -> dict[str, float | None]:
    """Unweighted means over clients; a client without samples does not count."""
    rows = [client_scores(evaluation) for evaluation in evaluations]
    return {name: _mean(row[name] for row in rows) for name in (*_SCORES, "validation_accuracy")}


def _mean(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def summarize(config: Mapping[str, Any], history: History) -> dict[str, Any]:
    """The summary of a run: what was asked, as far as its configuration says, and what came of it."""
    asked = ("algorithm", "data", "partition", "models", "clients", "fraction", "seed")
    summary = {"version": 1, **{name: config[name] for name in asked if name in config}, **history.summary}
    if (patience := config.get("early_stop")) is not None:
        now = standing(history.rounds)
        stopped = {"patience": patience, "stopped": now.since >= patience, "best_round": now.best_round}
        summary["early_stop"] = stopped
    return summary


@dataclass
class History:
    """What happened, round by round.

    Attributes:
        rounds: One record per round, as in ``rounds.jsonl``.
        client_accuracy: Test accuracy of every client, in the order of their ids, when all were last evaluated.
    """

    rounds: list[dict[str, Any]] = field(default_factory=list)
    client_accuracy: list[float | None] = field(default_factory=list)

    @property
    def summary(self) -> dict[str, Any]:
        """The run in numbers: accuracy under each protocol, and what it cost."""
        return {
            **self._protocols(),
            "client_accuracy": self.client_accuracy,
            "rounds": len([record for record in self.rounds if record["round"] > 0]),
            **{name: sum(record[name] for record in self.rounds) for name in COSTS},
        }

    def plot(self, x: str = "rounds") -> Figure:
        """A figure of accuracy over ``x``: rounds, bytes, flops or seconds; ``.savefig("accuracy.pdf")`` keeps it.

        In a notebook, a history shows its table and its curve by itself.
        """
        from potluck.report.figures.history import history_figure

        return history_figure(self, x)

    def __repr__(self) -> str:
        """The run at a glance; all records are in ``rounds``."""
        shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in self._protocols().items()}
        return f"History({len(self.rounds)} rounds, {', '.join(f'{k}={v}' for k, v in shown.items())})"

    def _repr_html_(self) -> str:
        from potluck.report.figures.history import history_html

        return history_html(self)

    def _protocols(self) -> dict[str, Any]:
        everyone = [record for record in self.rounds if record["all"] is not None]
        validated = [record for record in everyone if record["all"]["validation_accuracy"] is not None]
        # Enrolment (round 0) is no round: everybody takes part in it.
        scored = [r for r in self.rounds if r["round"] > 0 and r["participants"]["accuracy"] is not None]
        # Of equal rounds the first counts, as it does for a reader who watches.
        chosen = max(validated, key=lambda record: record["all"]["validation_accuracy"], default=None)
        best = max(scored, key=lambda record: record["participants"]["accuracy"], default=None)
        last = everyone[-1] if everyone else None
        return {
            "all_last": last and last["all"]["accuracy"],
            "all_last_round": last and last["round"],
            "all_best_validation": chosen and chosen["all"]["accuracy"],
            "all_best_validation_round": chosen and chosen["round"],
            "participants_best": best and best["participants"]["accuracy"],
            "participants_best_round": best and best["round"],
        }


CLIENT_COSTS = ("bytes_up", "bytes_down", "tensor_bytes_up", "tensor_bytes_down", "flops")
"""What the record of a client that trained counts: bytes as encoded, bytes of numbers alone, and operations."""

COSTS = (*CLIENT_COSTS, "server_flops")
"""What the record of a round counts: the same over the whole cohort, with the server's operations in ``flops``; and
these alone."""
