"""What the records of a run hold, checked wherever they are read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from potluck.errors import RunError
from potluck.metrics.protocol import CLIENT_COSTS, COSTS

SCORES = ("accuracy", "balanced_accuracy", "macro_f1", "validation_accuracy")
"""What is recorded of every evaluation; None where a client has no samples for it."""

_MOST_ROUNDS, _MOST_CLIENTS = 10**9, 10**9
_MOST = 10**30
"""No run costs as many bytes or operations, and every float holds a number of this size."""


def check_round(record: Any, where: str) -> dict[str, Any]:
    """A line of ``rounds.jsonl``; ``RunError`` says that ``where`` is damaged if it is none."""
    try:
        _whole(record, "round", _MOST_ROUNDS)
        cohort, failed = (_clients(record, name) for name in ("cohort", "failed"))
        if not set(failed) <= set(cohort):
            _refuse("failed names clients that are not in its cohort")
        _loss(record)
        _scores(record["participants"], "participants")
        if record["all"] is not None:
            _scores(record["all"], "all")
        if "flops" in record and "server_flops" not in record:
            raise RunError(
                f"{where} was written by an earlier version, which did not count the server's operations (it has no "
                "server_flops): run it again in a new folder."
            )
        for name in COSTS:
            _whole(record, name, _MOST)
        if _number(record["seconds"], "seconds") < 0:
            _refuse("seconds is negative")
        _observed(record)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(record, where, error) from error
    return dict(record)


def check_client(record: Any, where: str) -> dict[str, Any]:
    """A line of ``clients.jsonl``; ``RunError`` says that ``where`` is damaged if it is none."""
    try:
        _whole(record, "round", _MOST_ROUNDS)
        _whole(record, "client", _MOST_CLIENTS)
        _scores(record, "it")
        if "loss" in record or "flops" in record:  # it trained in this round
            _loss(record)
            for name in CLIENT_COSTS:
                _whole(record, name, _MOST)
        _observed(record)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(record, where, error) from error
    return dict(record)


def check_rounds(records: Iterable[Any], where: str) -> Iterator[dict[str, Any]]:
    """The lines of ``rounds.jsonl``, each checked, and that every round follows the one before."""
    before = None
    for number, record in enumerate(records, 1):
        line = f"line {number} of {where}"
        checked = check_round(record, line)
        expected = (0, 1) if before is None else (before + 1,)
        if checked["round"] not in expected:
            follows = "the first" if before is None else f"what follows round {before}"
            raise RunError(f"{line} is damaged: round {checked['round']} is not {follows}.")
        before = checked["round"]
        yield checked


def check_clients(records: Iterable[Any], where: str) -> Iterator[dict[str, Any]]:
    """The lines of ``clients.jsonl``, each checked, in the order of rounds and in each of them of clients."""
    before = (-1, -1)
    for number, record in enumerate(records, 1):
        line = f"line {number} of {where}"
        checked = check_client(record, line)
        now = checked["round"], checked["client"]
        if now <= before:
            raise RunError(
                f"{line} is damaged: client {now[1]} in round {now[0]} does not follow client {before[1]} in round "
                f"{before[0]}."
            )
        before = now
        yield checked


def _whole(record: Any, name: str, most: int) -> int:
    value = record[name]
    if type(value) is not int or not 0 <= value <= most:
        _refuse(f"{name} is {_shown(value)}, and not a whole number from 0 to {most:,}")
    return int(value)


def _number(value: Any, name: str) -> float:
    if type(value) not in (int, float) or not -_MOST <= value <= _MOST or not math.isfinite(value):
        _refuse(f"{name} is {_shown(value)}, and not a finite number")
    return float(value)


def _loss(record: Any) -> None:
    if record["loss"] is not None:
        _number(record["loss"], "loss")


def _scores(scores: Any, name: str) -> None:
    if not isinstance(scores, dict):
        _refuse(f"{name} has no scores")
    for score in SCORES:
        value = scores[score]
        if value is not None and not 0 <= _number(value, score) <= 1:
            _refuse(f"{score} is {_shown(value)}, and not from 0 to 1")


def _clients(record: Any, name: str) -> list[int]:
    clients = record[name]
    if not isinstance(clients, list) or any(type(client) is not int or client < 0 for client in clients):
        _refuse(f"{name} is not a list of clients")
    if clients != sorted(set(clients)):
        _refuse(f"{name} is not in the order of clients, each of them once")
    return list(clients)


def _observed(record: Any) -> None:
    observed = record.get("observed", {})
    if not isinstance(observed, dict):
        _refuse("observed is not a table of numbers")
    for name, value in observed.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            _refuse(f"{_shown(name)} is {_shown(value)}, and not a finite number")


def _refuse(what: str) -> NoReturn:
    raise ValueError(what)


def _damaged(record: Any, where: str, error: Exception) -> RunError:
    if not isinstance(record, dict):
        return RunError(f"{where} is damaged: it is no record.")
    return RunError(f"{where} is damaged: {f'it has no {error}' if isinstance(error, KeyError) else error}.")


def _shown(value: Any) -> str:
    """A value as it stands in a message, not longer than that can be."""
    text = f"{type(value).__name__} of {len(value)}" if isinstance(value, dict | list) else ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
