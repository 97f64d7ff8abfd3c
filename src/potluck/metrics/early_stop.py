"""When to stop early: by the validation accuracy of all clients, never by their test accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Standing:
    """How validation stands after some rounds.

    Attributes:
        best_round: The round of the best validation accuracy so far; None before any.
        since: Evaluations of all clients since then.
    """

    best_round: int | None
    since: int


def standing(rounds: Iterable[Mapping[str, Any]]) -> Standing:
    """How validation stands, from the records of the rounds; so a resumed run knows it as one that never stopped does.

    >>> accuracies = [0.5, 0.7, None, 0.7, 0.6]
    >>> records = [
    ...     {"round": number, "all": accuracy and {"validation_accuracy": accuracy}}
    ...     for number, accuracy in enumerate(accuracies, 1)
    ... ]
    >>> standing(records)
    Standing(best_round=2, since=2)
    """
    best, best_round, since = float("-inf"), None, 0
    for record in rounds:
        accuracy = record["all"] and record["all"]["validation_accuracy"]
        if accuracy is None:
            continue
        if accuracy > best:
            best, best_round, since = accuracy, record["round"], 0
        else:
            since += 1
    return Standing(best_round, since)
