"""What was recorded of clients beside their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from potluck.run.folder import RunFolder

if TYPE_CHECKING:
    from potluck.results import RunResult


def by_round(run: RunResult, name: str) -> dict[int, float]:
    """The mean over those who took part in each round; empty where it was not recorded."""
    return {
        each.round: float(each.record["observed"][name])
        for each in run.rounds
        if each.round > 0 and name in each.record.get("observed", {})
    }


def by_client(run: RunResult, name: str) -> dict[int, dict[int, float]]:
    """For each client that took part, its number in each round."""
    last = run.rounds[-1].round
    found: dict[int, dict[int, float]] = {}
    for record in RunFolder(run.path).records("clients.jsonl"):
        value = record.get("observed", {}).get(name)
        if value is not None and 0 < record["round"] <= last:
            found.setdefault(record["client"], {})[record["round"]] = float(value)
    return found
