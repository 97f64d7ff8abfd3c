"""What runs cost: in all, and until they reach an accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from potluck.results import RoundResult, RunResult


@dataclass(frozen=True)
class Cost:
    """Rounds, bytes in both directions, floating-point operations (the server's too) and seconds, perhaps as means."""

    rounds: float
    bytes: float
    flops: float
    server_flops: float
    seconds: float


def total_cost(run: RunResult) -> Cost:
    """What the whole run cost."""
    return _sum(run.rounds)


def cost_to(run: RunResult, target: float, protocol: str) -> Cost | None:
    """What a run cost up to the first round that was seen to reach the target; None if none was.

    Under the papers' protocol that is the mean of the round's participants, and else of all clients, which is known
    every ``evaluate_every`` rounds, and in every round in which all of them took part.
    """
    clients = int(run.config["clients"])
    for number, each in enumerate(run.rounds, 1):
        seen = each.everyone
        if protocol == "participants_best" or (seen is None and _all_took_part(each, clients)):
            seen = each.participants
        if each.round > 0 and seen is not None and seen >= target:
            return _sum(run.rounds[:number])
    return None


def _all_took_part(each: RoundResult, clients: int) -> bool:
    """Whether a round's participants were all clients, and none of them failed."""
    return len(each.record["cohort"]) == clients and not each.record.get("failed")


def mean_cost(costs: Sequence[Cost]) -> Cost:
    """The mean of what several runs cost."""
    count = len(costs)
    return Cost(
        sum(cost.rounds for cost in costs) / count,
        sum(cost.bytes for cost in costs) / count,
        sum(cost.flops for cost in costs) / count,
        sum(cost.server_flops for cost in costs) / count,
        sum(cost.seconds for cost in costs) / count,
    )


def _sum(rounds: Sequence[RoundResult]) -> Cost:
    return Cost(
        len([each for each in rounds if each.round > 0]),
        sum(each.bytes_up + each.bytes_down for each in rounds),
        sum(each.flops for each in rounds),
        sum(each.server_flops for each in rounds),
        sum(each.seconds for each in rounds),
    )
