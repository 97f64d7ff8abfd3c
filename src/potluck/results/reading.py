"""Reading run folders: whatever is damaged or foreign is named and left out, and the rest is given."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.errors import PotluckError, RunError
from potluck.results.agreement import check_config, check_records, check_summary
from potluck.results.result import CLIENT_NUMBERS, ClientRecords, RoundResult, RunResult
from potluck.run.contents import check_clients, check_rounds
from potluck.run.files import read_bytes, size_of
from potluck.run.folder import RunFolder
from potluck.run.inputs import NAME as INPUTS

_DEPTH = 4
"""How deep below a given folder runs are looked for."""
_AT_ONCE = 1 << 30
"""Bytes of a file of records that are read at once; of a longer one only a line at a time is held."""


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
    """Read one run, finished or not; raises ``RunError`` if it is damaged or has no finished round.

    Whatever shows a run, compares it or opens it reads it here first, so that all take the same runs.
    """
    folder = RunFolder.open(path)
    config = folder.config()
    check_config(config, path / "config.toml")
    summary = folder.summary()
    rounds = list(check_rounds(folder.records("rounds.jsonl"), str(path / "rounds.jsonl")))
    if not rounds and summary is None:
        raise RunError(f"{path} has no finished round to show yet. {folder.going_on}")
    if not rounds:
        raise RunError(f"{path} is damaged: it has a summary, and rounds.jsonl has no whole line.")
    clients = _clients(folder)
    check_records(path, config, rounds, clients, finished=summary is not None)
    columns = _columns([record for record in clients if record["round"] <= rounds[-1]["round"]])
    result = RunResult(path, config, [_round(each, config) for each in rounds], columns, summary)
    if summary is not None:
        check_summary(summary, result.recorded, config, path / "summary.json")
    if result.inputs is not None and len(result.inputs.samples()) != config["clients"]:
        raise RunError(f"{path / INPUTS} is damaged: it is not of {config['clients']} clients.")
    return result


def runs_below(path: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """The run folders in a folder, or the folder itself if it is one, in the order of names."""
    try:
        if os.path.lexists(path / "config.toml"):  # which may be none that can be read, and is then named
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


def _round(record: Mapping[str, Any], config: Mapping[str, Any]) -> RoundResult:
    everyone = record["all"]
    scores = record["participants"] if everyone is None else everyone
    return RoundResult(
        round=record["round"],
        participants=record["participants"]["accuracy"],
        everyone=None if everyone is None else everyone["accuracy"],
        validation=scores["validation_accuracy"],
        loss=record["loss"],
        bytes_up=record["bytes_up"],
        bytes_down=record["bytes_down"],
        flops=record["flops"],
        server_flops=record["server_flops"],
        seconds=record["seconds"],
        epochs=config["epochs"],
        record=record,
    )


def _clients(folder: RunFolder) -> list[dict[str, Any]]:
    """The records of clients."""
    path = folder.path / "clients.jsonl"
    records: Iterable[Any] | None = _fast(path)
    if records is None:
        records = folder.records(path.name)  # slower, and names the line that is damaged
    return list(check_clients(records, str(path)))


def _columns(records: Sequence[Mapping[str, Any]]) -> ClientRecords:
    """The records of clients as columns."""

    def column(name: str) -> NDArray[np.float64]:
        return np.array([record.get(name) for record in records], dtype=np.float64)

    return ClientRecords(
        np.array([record["round"] for record in records], dtype=np.int64),
        np.array([record["client"] for record in records], dtype=np.int64),
        {name: column(name) for name in CLIENT_NUMBERS},
    )


def _fast(path: Path) -> list[Any] | None:
    """All lines of a file, parsed at once, which takes a third of the time; None if that cannot be."""
    if not os.path.lexists(path):
        return []
    if (size_of(path) or 0) > _AT_ONCE:
        return None
    whole, _, _half_written = read_bytes(path).rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    try:
        records: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        return None
    return records if len(records) == len(lines) else None


def _without_twins(results: list[RunResult], problems: list[str]) -> list[RunResult]:
    """Runs of the same settings, seed and inputs are one result and not two: the one that got furthest counts."""
    kept: dict[str, RunResult] = {}
    for result in sorted(results, key=lambda each: (not each.finished, -len(each.rounds))):
        began = result.inputs.plain() if result.inputs else None
        same = kept.setdefault(json.dumps([result.settings, began], sort_keys=True, default=str), result)
        if same is not result:
            problems.append(f"{result.path} is the same run as {same.path} (all settings and the seed): left out.")
    return [result for result in results if any(result is each for each in kept.values())]
