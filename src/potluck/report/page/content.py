"""What the page says in words and tables."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from potluck.compare.sharing import samples, unequal
from potluck.errors import RunError
from potluck.metrics.protocol import MEANING
from potluck.report.format import duration, operations, size
from potluck.results import differing
from potluck.run.files import read_json

if TYPE_CHECKING:
    from potluck.results import Group, RunResult


@dataclass(frozen=True)
class Table:
    """A table of texts: its head, its rows, and whether the first column names the rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def setting_line(groups: Sequence[Group]) -> str:
    """What all runs were about, in a line: data, partition, clients, models, rounds; as far as they agree."""
    first = groups[0].runs[0].settings
    agreed = {
        key: first[key]
        for key in ("data", "partition", "clients", "fraction", "models", "rounds")
        if key in first and all(run.settings.get(key) == first[key] for group in groups for run in group.runs)
    }
    words = {"clients": "{} clients", "fraction": "{:.0%} of them in a round", "rounds": "{} rounds"}
    return ", ".join(words.get(key, "{}").format(value) for key, value in agreed.items())


def headline(groups: Sequence[Group]) -> Table:
    """Methods by accuracy under each named protocol, with seeds and costs; ``*`` marks the best of a protocol."""
    values = [{protocol: _values(group, protocol) for protocol in MEANING} for group in groups]
    best = {
        protocol: max((mean(each[protocol]) for each in values if each[protocol]), default=None) for protocol in MEANING
    }
    rows = []
    for group, each in zip(groups, values, strict=True):
        cells = [_accuracy(each[protocol], best[protocol], len(groups)) for protocol in MEANING]
        rows.append([group.title, *cells, _seeds(group), *_costs(group)])
    head = [
        "method",
        *(f"{text}" for text in MEANING.values()),
        "seeds",
        "bytes up",
        "bytes down",
        "FLOP",
        "server FLOP",
        "time",
    ]
    return Table(head, rows)


def _values(group: Group, protocol: str) -> list[float]:
    return [100 * value for run in group.runs if (value := run.accuracy(protocol)) is not None]


def _accuracy(values: Sequence[float], best: float | None, methods: int) -> str:
    if not values:
        return "-"
    text = f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
    return f"{text} *" if methods > 1 and best is not None and math.isclose(mean(values), best) else text


def _seeds(group: Group) -> str:
    seeds = [str(seed) for seed in group.seeds]
    return ", ".join(seeds) if len(seeds) <= 5 else f"{len(seeds)} ({seeds[0]} to {seeds[-1]})"


def _costs(group: Group) -> list[str]:
    def total(name: str) -> int:
        return round(mean(float(run.summary[name]) for run in group.runs))

    seconds = mean(run.seconds for run in group.runs)
    work = [operations(total(name)) for name in ("flops", "server_flops")]
    return [size(total("bytes_up")), size(total("bytes_down")), *work, duration(seconds)]


def runs_table(groups: Sequence[Group], folder: Path) -> Table:
    """Every run: where it is, seen from the folder of the page, and how far it got."""
    rows = []
    for group in groups:
        for run in group.runs:
            accuracy = run.accuracy()
            shown = "-" if accuracy is None else f"{100 * accuracy:.2f}"
            rows.append(
                [
                    _seen_from(folder, run.path),
                    group.title,
                    str(run.seed),
                    shown,
                    f"{run.summary['rounds']}",
                    _state(run),
                ]
            )
    return Table(["folder", "method", "seed", MEANING["all_last"], "rounds", ""], rows)


def _seen_from(folder: Path, path: Path) -> str:
    """A path within a folder, as short as it is there; any other, in full."""
    inner, outer = path.resolve(), folder.resolve()
    return str(inner.relative_to(outer)) if inner.is_relative_to(outer) else str(path)


def _state(run: RunResult) -> str:
    if not run.finished:
        return "not finished"
    asked = run.config.get("rounds")
    return "stopped early" if asked is not None and run.summary["rounds"] < asked else ""


def own_settings(groups: Sequence[Group]) -> Table:
    """What each method's algorithm was set to."""
    rows = [
        [group.title, ", ".join(f"{key} = {_text(value)}" for key, value in group.runs[0].algorithm_settings.items())]
        for group in groups
    ]
    return Table(["method", "its own settings"], [[title, text or "none"] for title, text in rows])


def settings_that_differ(groups: Sequence[Group]) -> Table:
    """The settings in which methods differ, other than their own."""
    rows = []
    keys = sorted(_shared_keys(groups))
    for key in keys:
        values = [_text(group.runs[0].settings.get(key)) for group in groups]
        if len(set(values)) > 1:
            rows.append([key, *values])
    return Table(["setting", *(group.title for group in groups)], rows)


def settings_in_common(groups: Sequence[Group]) -> Table:
    """The settings that all methods share."""
    differ = {row[0] for row in settings_that_differ(groups).rows}
    first = groups[0].runs[0].settings
    rows = [[key, _text(first[key])] for key in sorted(_shared_keys(groups) - differ)]
    return Table(["setting", "value"], rows)


def _shared_keys(groups: Sequence[Group]) -> set[str]:
    keys = {key for group in groups for key in group.runs[0].settings if not key.startswith("algorithm.")}
    return keys - {"seed", "data_dir"}


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def environments(runs: Iterable[RunResult]) -> Table:
    """What the runs ran on: each different machine or version once, with how many runs."""
    found: dict[tuple[str, ...], int] = {}
    for run in runs:
        read = _environment(run) or {}
        found[tuple(_text(read.get(key)) for key in _SHOWN)] = 1 + found.get(
            tuple(_text(read.get(key)) for key in _SHOWN), 0
        )
    return Table([*_SHOWN.values(), "runs"], [[*values, str(count)] for values, count in found.items()])


_SHOWN = {
    "potluck": "Potluck",
    "python": "Python",
    "torch": "PyTorch",
    "platform": "machine",
    "cpu_threads": "threads",
    "gpu": "GPU",
}


_MOST = 1 << 20
"""Bytes that ``environment.json`` may have."""


def _environment(run: RunResult) -> Mapping[str, Any] | None:
    """What a run ran on; None if its file of that is damaged, on which no number depends."""
    path = run.path / "environment.json"
    if not os.path.lexists(path):
        return {}
    try:
        read = read_json(path, _MOST)
    except RunError:
        return None
    return read if isinstance(read, dict) else None


def _held(group: Group) -> str:
    found = samples(group)
    return "unknown" if found is None else " to ".join(map(str, dict.fromkeys(found)))


def warnings(groups: Sequence[Group], meant: Collection[str] = ()) -> list[str]:
    """What a reader must know before comparing: runs that differ in more than the method, or are not equally far.

    Settings that are ``meant`` to differ are not mentioned.
    """
    runs = [run for group in groups for run in group.runs]
    found = []
    if len(groups) > 1 and (apart := differing(runs, meant)):
        keys = ", ".join(f"{key} ({', '.join(_text(value) for value in values)})" for key, values in apart.items())
        found.append(f"The runs differ in more than the method: {keys}. Differences in accuracy may come from that.")
    if unequal(groups):
        held = "; ".join(f"{group.title}: {_held(group)}" for group in groups)
        found.append(f"Clients do not hold the same number of training samples under all methods: {held}.")
    if unfinished := [str(run.path) for run in runs if not run.finished]:
        found.append(f"Not finished, and shown as far as they got: {', '.join(unfinished)}.")
    if unknown := [str(run.path) for run in runs if _environment(run) is None]:
        found.append(f"environment.json is damaged, and what it ran on is not known: {', '.join(unknown)}.")
    if len({tuple(group.seeds) for group in groups}) > 1:
        seeds = "; ".join(f"{group.title}: {_seeds(group)}" for group in groups)
        found.append(f"Not all methods have the same seeds: {seeds}.")
    if any(run.summary["all_last"] is None for run in runs):
        found.append("Some runs have no accuracy of all clients: they have no test samples, or stopped too early.")
    return found
