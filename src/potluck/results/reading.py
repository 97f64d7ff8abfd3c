"""Reading run folders: whatever is damaged or foreign is named and left out, and the rest is given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.errors import PotluckError, RunError
from potluck.results.result import CLIENT_NUMBERS, ClientRecords, RoundResult, RunResult
from potluck.run.folder import RunFolder
from potluck.run.inputs import NAME as INPUTS

_DEPTH = 4
"""How deep below a given folder runs are looked for."""


def read_runs(paths: Iterable[str | Path]) -> tuple[list[RunResult], list[str]]:
    """Read runs; ``paths`` are run folders, or folders that hold some.

    Returns:
        The runs, in the order of the paths and within one in the order of names; and a sentence for everything that
        was left out: what is missing, damaged, no run, not begun yet or given twice.
    """
    results: list[RunResult] = []
    problems: list[str] = []
    seen: dict[Path, None] = {}
    for path in map(Path, paths):
        found = list(runs_below(path))
        if not found:
            problems.append(f"no run in {path}: {_why_none(path)}.")
        for run in found:
            if run.resolve() in seen:
                continue
            seen[run.resolve()] = None
            try:
                results.append(read_run(run))
            except PotluckError as error:
                problems.append(str(error))
    return _without_twins(results, problems), problems


def read_run(path: Path) -> RunResult:
    """Read one run, finished or not; raises ``RunError`` if it is damaged or has no finished round."""
    folder = RunFolder.open(path)
    try:
        config = _config(folder)
        summary = folder.summary()
        rounds = [_round(record, config) for record in folder.records("rounds.jsonl")]
        if not rounds and summary is None:
            raise RunError(f"{path} has no finished round yet.")
        if not rounds:
            raise RunError(f"{path} is damaged: it has a summary, and rounds.jsonl has no whole line.")
        clients = _clients(folder, rounds[-1].round)
        _check_whole(path, config, summary, rounds, clients)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RunError(f"{path} is damaged: its records are not those of a run ({error!r}).") from error
    result = RunResult(path, config, rounds, clients, summary is not None)
    if result.inputs is not None and len(result.inputs.samples()) != config["clients"]:
        raise RunError(f"{path} is damaged: its {INPUTS} is not of {config['clients']} clients.")
    return result


def runs_below(path: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """The run folders in a folder, or the folder itself if it is one, in the order of names."""
    try:
        if (path / "config.toml").is_file():
            yield path
        elif depth and path.is_dir():
            for child in sorted(path.iterdir()):
                if child.is_dir() and not child.name.startswith("."):
                    yield from runs_below(child, depth - 1)
    except OSError:
        return  # a folder that cannot be looked into holds nothing that can be read


def _why_none(path: Path) -> str:
    if path.is_dir():
        return "no folder in it has a config.toml"
    return "it is a file" if path.exists() else "it does not exist"


def _config(folder: RunFolder) -> dict[str, Any]:
    config = folder.config()
    algorithm = config.get("algorithm")
    if not isinstance(algorithm, dict) or not isinstance(algorithm.get("name"), str):
        raise RunError(f"{folder.path} is no run: its config.toml names no algorithm.")
    for key in ("seed", "clients", "epochs"):
        if not isinstance(config.get(key), int):
            raise RunError(f"{folder.path} is damaged: {key} in its config.toml is no whole number.")
    return config


def _round(record: Mapping[str, Any], config: Mapping[str, Any]) -> RoundResult:
    everyone = record["all"]
    scores = record["participants"] if everyone is None else everyone
    return RoundResult(
        round=int(record["round"]),
        participants=_number(record["participants"]["accuracy"]),
        everyone=None if everyone is None else _number(everyone["accuracy"]),
        validation=_number(scores["validation_accuracy"]),
        loss=_number(record["loss"]),
        bytes_up=int(record["bytes_up"]),
        bytes_down=int(record["bytes_down"]),
        flops=int(record["flops"]),
        seconds=float(record["seconds"]),
        epochs=int(config["epochs"]),
        record=record,
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _clients(folder: RunFolder, last: int) -> ClientRecords:
    """The records of clients up to a round: those of a round that is not recorded yet do not count."""
    records = _fast(folder.path / "clients.jsonl")
    if records is None:
        records = list(folder.records("clients.jsonl"))  # slower, and names the line that is damaged
    records = [record for record in records if record["round"] <= last]

    def column(name: str) -> NDArray[np.float64]:
        return np.array([record.get(name) for record in records], dtype=np.float64)

    return ClientRecords(
        np.array([record["round"] for record in records], dtype=np.int64),
        np.array([record["client"] for record in records], dtype=np.int64),
        {name: column(name) for name in CLIENT_NUMBERS},
    )


def _fast(path: Path) -> list[dict[str, Any]] | None:
    """All records of a file, parsed at once, which takes a third of the time; None if something is wrong with it."""
    if not path.is_file():  # a pipe or a device would never end
        return None
    try:
        whole, _, _half_written = path.read_bytes().rpartition(b"\n")
        records = json.loads(b"[" + whole.replace(b"\n", b",") + b"]")
    except (OSError, ValueError):
        return None
    return records if all(isinstance(record, dict) for record in records) else None


def _check_whole(
    path: Path,
    config: Mapping[str, Any],
    summary: Mapping[str, Any] | None,
    rounds: list[RoundResult],
    clients: ClientRecords,
) -> None:
    """Raise where records are missing, as in a folder that was copied in part."""
    played = len([each for each in rounds if each.round > 0])
    if summary is not None and summary.get("rounds") != played:
        raise RunError(f"{path} is damaged: rounds.jsonl has {played} rounds, summary.json {summary.get('rounds')}.")
    counts = dict(zip(*(array.tolist() for array in np.unique(clients.round, return_counts=True)), strict=True))
    for each in rounds:
        there = counts.get(each.round, 0)
        # Of a cohort some may have failed; where everyone is evaluated, everyone is there.
        asked = 1 if each.record["all"] is None else int(config["clients"])
        if there < asked:
            raise RunError(f"{path} is damaged: clients.jsonl has {there} clients of round {each.round}, not {asked}.")


def _without_twins(results: list[RunResult], problems: list[str]) -> list[RunResult]:
    """Runs of the same settings, seed and inputs are one result and not two: the one that got furthest counts."""
    kept: dict[str, RunResult] = {}
    for result in sorted(results, key=lambda each: (not each.finished, -len(each.rounds))):
        began = result.inputs.plain() if result.inputs else None
        same = kept.setdefault(json.dumps([result.settings, began], sort_keys=True, default=str), result)
        if same is not result:
            problems.append(f"{result.path} is the same run as {same.path} (all settings and the seed): left out.")
    return [result for result in results if any(result is each for each in kept.values())]
