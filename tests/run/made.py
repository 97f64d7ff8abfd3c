"""Records as a run writes them, made up."""

from __future__ import annotations

from typing import Any

from potluck.metrics.protocol import COSTS
from potluck.run.contents import SCORES


def round_record(number: int, accuracy: float | None = 0.5, cohort: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """A line of ``rounds.jsonl`` in which everyone was evaluated."""
    scores = dict.fromkeys(SCORES, accuracy)
    taking: dict[str, Any] = {"round": number, "cohort": list(cohort), "failed": [], "loss": 0.1}
    return {**taking, "participants": scores, "all": scores, **dict.fromkeys(COSTS, 1), "seconds": 0.5}


def client_record(number: int, client: int = 0, accuracy: float | None = 0.5) -> dict[str, Any]:
    """A line of ``clients.jsonl`` of a client that trained."""
    scores = dict.fromkeys(SCORES, accuracy)
    return {"round": number, "client": client, **scores, "loss": 0.1, **dict.fromkeys(COSTS, 1)}
