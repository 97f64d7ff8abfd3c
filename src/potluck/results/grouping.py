"""Which runs are the same but for the seed, and in what the others differ."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from potluck import algorithms
from potluck.errors import ConfigError
from potluck.messages import visible
from potluck.results.result import RunResult
from potluck.run.record import FREE

_UNCOMPARED = FREE | {"seed", "version"}
"""What may differ between runs that are the same: no number but a seed's depends on it."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed alone.

    Attributes:
        name: Algorithm, and what sets it apart from other groups of that algorithm: ``pfedes mu=0.3``.
        title: The same with the algorithm as its paper spells it: ``pFedES mu=0.3``.
        runs: The runs, in the order of their seeds.
    """

    name: str
    title: str
    runs: Sequence[RunResult]

    @property
    def algorithm(self) -> str:
        """Name of the algorithm."""
        return self.runs[0].algorithm

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs."""
        return [run.seed for run in self.runs]


def groups(results: Sequence[RunResult]) -> list[Group]:
    """Runs that are the same but for the seed, in the order in which they are first met."""
    gathered: dict[tuple[str, int], list[RunResult]] = {}
    for result in results:
        key = _identity(result.settings)
        # Of the same settings and seed there is a second run if the data behind them have changed.
        copy = next(each for each in count(1) if result.seed not in {run.seed for run in gathered.get((key, each), [])})
        gathered.setdefault((key, copy), []).append(result)
    found = [sorted(runs, key=lambda run: run.seed) for runs in gathered.values()]
    suffixes = [
        _apart(runs[0], [other[0] for other in found if other[0].algorithm == runs[0].algorithm])
        + (f" data {copy}" if copy > 1 else "")
        for runs, (_, copy) in zip(found, gathered, strict=True)
    ]
    return [
        Group(visible(f"{runs[0].algorithm}{suffix}"), visible(f"{title_of(runs[0].algorithm)}{suffix}"), runs)
        for runs, suffix in zip(found, suffixes, strict=True)
    ]


def differing(results: Sequence[RunResult], compared: Collection[str] = ()) -> dict[str, list[Any]]:
    """Settings that differ between runs besides the algorithm, its own settings, the seed and what is ``compared``.

    A comparison of such runs compares more than it says.
    """
    keys = sorted({key for result in results for key in result.settings})
    found = {}
    for key in keys:
        if key in _UNCOMPARED or key in compared or key.startswith("algorithm."):
            continue
        values = {_text(result.settings.get(key)): result.settings.get(key) for result in results}
        if len(values) > 1:
            found[key] = list(values.values())
    return found


def title_of(algorithm: str) -> str:
    """How an algorithm's paper spells it; the name of one that is not known here."""
    try:
        return algorithms.find(algorithm).title
    except ConfigError:
        return algorithm


def _identity(settings: Mapping[str, Any]) -> str:
    return _text({key: value for key, value in settings.items() if key not in _UNCOMPARED})


def _apart(run: RunResult, alike: Sequence[RunResult]) -> str:
    """The settings that set a run apart from others of its algorithm, ready to follow its name."""
    keys = {key for other in alike for key in other.settings} - _UNCOMPARED
    shown = [key for key in sorted(keys) if len({_text(other.settings.get(key)) for other in alike}) > 1]
    return "".join(
        f" {key.removeprefix('algorithm.')}={run.settings[key]}" for key in shown if run.settings.get(key) is not None
    )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
