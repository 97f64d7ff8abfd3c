"""Whether the files of a run agree: its configuration, its records of rounds and clients, its summary.

Each record by itself is checked where it is read (:mod:`potluck.run.contents`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from potluck.config import RunConfig
from potluck.errors import RunError
from potluck.run.contents import SCORES
from potluck.settings import explain

_WHOLE = ("seed", "clients", "epochs")
_SUMS = ("bytes_up", "tensor_bytes_up")
"""What a round's record adds up over the clients that answered."""

Record = Mapping[str, Any]


def check_config(config: Mapping[str, Any], where: Path) -> None:
    """Raise unless this is the configuration of a run, of a method and data set that need not be known here."""
    algorithm = config.get("algorithm")
    if not isinstance(algorithm, dict) or not isinstance(algorithm.get("name"), str) or not algorithm["name"].strip():
        raise RunError(f"{where.parent} is no run: its config.toml names no algorithm.")
    for key in _WHOLE:
        if type(config.get(key)) is not int:
            raise RunError(f"{where} is damaged: {key} is no whole number.")
    known = {key: value for key, value in config.items() if key in RunConfig.model_fields}
    try:
        checked = RunConfig(**known)
    except ValidationError as error:
        raise RunError(f"{where} is damaged: {explain(error, RunConfig)}") from error
    for key, value in known.items():
        # Text of digits, true and false would be taken for the numbers that they are not.
        if isinstance(getattr(checked, key), int | float) and isinstance(value, bool | str):
            raise RunError(f"{where} is damaged: {key} is {value!r}, and no number.")


def check_records(
    path: Path, config: Mapping[str, Any], rounds: Sequence[Record], clients: Sequence[Record], finished: bool
) -> None:
    """Raise where records are missing, or of clients and rounds that the run does not have, or contradict each other.

    Args:
        path: The run's folder.
        config: Its configuration.
        rounds: The records of its rounds.
        clients: The records of clients; of a run that is not finished perhaps some of a round that has no record yet.
        finished: Whether it ran to its end.
    """
    count, last = int(config["clients"]), int(rounds[-1]["round"])
    if last > config.get("rounds", last):
        raise RunError(f"{path / 'rounds.jsonl'} is damaged: it has round {last}, and config.toml {config['rounds']}.")
    found: dict[int, list[Record]] = {}
    for record in clients:
        found.setdefault(record["round"], []).append(record)
    for record in rounds:
        _check_round(path, record, found.pop(record["round"], []), count)
    if foreign := [number for number in found if finished or number <= last]:
        raise _contradiction(path, f"round {foreign[0]} is in the second alone")


def _check_round(path: Path, round: Record, clients: Sequence[Record], count: int) -> None:
    number, cohort = round["round"], round["cohort"]
    if not cohort or cohort[-1] >= count:
        raise RunError(
            f"{path / 'rounds.jsonl'} is damaged: the cohort of round {number} has others than the {count} clients of "
            "config.toml."
        )
    answered = sorted({*cohort} - {*round["failed"]})
    expected = answered if round["all"] is None else range(count)
    there = {record["client"]: record for record in clients}
    # Only as far as to the first: a damaged configuration may say that there are any number of clients.
    missing = next((client for client in expected if client not in there), None)
    if missing is not None:
        by = "the first" if round["all"] is None else "config.toml"
        raise _contradiction(path, f"of round {number} the second has {len(there)} clients, and {by} {len(expected)}")
    if foreign := sorted(there.keys() - {*expected}):
        raise _contradiction(path, f"by the first, client {foreign[0]} has no part in round {number}")
    taking = [there[client] for client in answered]
    if trained := [record["client"] for record in clients if ("flops" in record) != (record["client"] in answered)]:
        raise _contradiction(path, f"one says that client {trained[0]} trained in round {number}")
    means = {"participants": taking, **({"all": clients} if round["all"] is not None else {})}
    for name, records in means.items():
        for score in SCORES:
            _agree(path, round, f"{name}: {score}", round[name][score], _mean(records, score))
    _agree(path, round, "loss", round["loss"], _mean(taking, "loss"))
    for name in _SUMS:
        _agree(path, round, name, round[name], sum(record[name] for record in taking))


def _contradiction(path: Path, details: str) -> RunError:
    return RunError(f"{path} is damaged: its rounds.jsonl and clients.jsonl do not agree: {details}.")


def _agree(path: Path, round: Record, name: str, said: float | None, found: float | None) -> None:
    if said is None or found is None:
        differ = said is not found
    else:
        differ = not math.isclose(said, found, rel_tol=1e-9, abs_tol=1e-9)
    if differ:
        details = f"of round {round['round']} the first says {name} {said}, and by the second it is {found}"
        raise _contradiction(path, details)


def _mean(records: Iterable[Record], name: str) -> float | None:
    values = [value for record in records if (value := record[name]) is not None]
    return sum(values) / len(values) if values else None


def check_summary(written: Mapping[str, Any], found: Mapping[str, Any], config: Mapping[str, Any], where: Path) -> None:
    """Raise where a summary is none, or not of these records.

    Args:
        written: What stands in ``summary.json``.
        found: The summary of the configuration and the records.
        config: The configuration.
        where: The file.
    """
    for key, value in found.items():
        # Of rounds, a configuration says how many there are to be, and a summary how many there were.
        by = "config.toml" if key in config and key != "rounds" else "rounds.jsonl and clients.jsonl"
        if key not in written:
            raise RunError(f"{where} is damaged: it is no summary of this run, for it has no {key} (see {by}).")
        if not _same(written[key], value):
            raise RunError(f"{where} is damaged: its {key} is {_shown(written[key])}; by {by} it is {_shown(value)}.")


def _same(written: Any, found: Any) -> bool:
    """Whether two plain values are equal; a configuration leaves out what is None."""
    if isinstance(written, dict) and isinstance(found, dict):
        return all(_same(written.get(key), found.get(key)) for key in {**written, **found})
    if isinstance(written, list) and isinstance(found, list):
        return len(written) == len(found) and all(map(_same, written, found))
    return isinstance(written, bool) == isinstance(found, bool) and bool(written == found)


def _shown(value: Any) -> str:
    """A value as it stands in a message, not longer than that can be."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
