"""Which runs a comparison is made of: methods, times settings, times seeds."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from potluck import algorithms
from potluck.config import RunConfig, make_config, parse_assignment
from potluck.errors import ConfigError, nearest

Settings = Callable[[str, Sequence[tuple[str, Any]]], Mapping[str, Any]]
"""Gives the settings of a run, from the name of a method and assignments that win over all else."""

_OWN = "algorithm."


@dataclass(frozen=True)
class Cell:
    """One run of a comparison.

    Attributes:
        name: Method and settings of the grid, fit for the name of a folder: ``pfedes-mu=0.3``.
        config: The whole configuration, seed included.
    """

    name: str
    config: RunConfig

    def __str__(self) -> str:
        return f"{self.name} seed {self.config.seed}"


def make_cells(
    methods: Sequence[str], seeds: Sequence[int] | None, grid: Mapping[str, Sequence[Any]], settings: Settings
) -> list[Cell]:
    """The runs of a comparison; those of the first seed come first, so that methods can be compared early.

    Args:
        methods: Names of the algorithms.
        seeds: Seeds of each; without, the one of the settings.
        grid: Values to try of settings. ``algorithm.mu`` is that of all methods that have one, ``pfedes.mu`` that of
            one method.
        settings: What every run has in common.
    """
    kinds = list(dict.fromkeys(algorithms.find(method).name for method in methods))
    for key in grid:
        refuse_unknown(key, kinds)
    cells: dict[str, Cell] = {}
    for seed in [None] if seeds is None else seeds:
        for kind in kinds:
            own = {meant: values for key, values in grid.items() if (meant := resolve(key, kind)) is not None}
            for values in itertools.product(*own.values()):
                chosen = list(zip(own, values, strict=True))
                config = make_config(settings(kind, [*chosen, *([] if seed is None else [("seed", seed)])]))
                cells.setdefault(config.model_dump_json(), Cell(_name(kind, chosen), config))
    return list(cells.values())


def resolve(key: str, method: str) -> str | None:
    """The setting of this method that a key means; None if it means another method's.

    >>> resolve("epochs", "pfedes"), resolve("algorithm.mu", "pfedes"), resolve("algorithm.mu", "fd")
    ('epochs', 'algorithm.mu', None)
    >>> resolve("pfedes.mu", "pfedes"), resolve("pfedes.epochs", "pfedes"), resolve("pfedes.mu", "fedprox")
    ('algorithm.mu', 'epochs', None)
    """
    whose, dot, name = key.rpartition(".")
    if not dot:
        return key
    own = name in algorithms.find(method).model_fields
    if whose == method:
        return f"{_OWN}{name}" if own else name
    return key if whose == "algorithm" and own else None


def refuse_unknown(key: str, methods: Iterable[str]) -> None:
    """Raise if a key is no setting of a run, nor of any of the methods, or is given in another way."""
    if key.rpartition(".")[2] == "seed" or key in ("algorithm", "algorithm.name"):
        raise ConfigError(f"{key} cannot be set here: name the methods themselves, and give seeds by --seeds 0,1,2.")
    common = set(RunConfig.model_fields) - {"algorithm", "seed", "version"}
    own = {method: set(algorithms.find(method).model_fields) for method in methods}
    known = common | {f"{_OWN}{name}" for names in own.values() for name in names}
    known |= {f"{method}.{name}" for method, names in own.items() for name in names | common}
    if key not in known:
        # Settings by method would make a long list; they are the same names.
        shown = [name for name in known if name.partition(".")[0] not in own]
        whose = key.rpartition(".")[0]
        if whose and whose != "algorithm" and (meant := get_close_matches(key.lower(), known - set(shown), 1, 0.8)):
            raise ConfigError(f"unknown setting {key!r}: did you mean {meant[0]!r}? The methods: {', '.join(own)}.")
        raise ConfigError(nearest(key, shown, "setting"))


def parse_grid(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Settings and the values to try of each; values that hold commas are written as a TOML array.

    >>> parse_grid(["algorithm.mu=0.1,0.3", 'models=["cnn-1..5", "cnn-1,cnn-5"]'])
    {'algorithm.mu': [0.1, 0.3], 'models': ['cnn-1..5', 'cnn-1,cnn-5']}
    """
    grid: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        key = key.strip()
        found = _values(key, values) if equals and key else []
        if not found:
            raise ConfigError(f"--grid {text!r} is not of the form key=value,value: --grid algorithm.mu=0.1,0.3")
        if key in grid:
            raise ConfigError(f"--grid {key} is given twice: give all its values at once.")
        grid[key] = found
    return grid


def _values(key: str, text: str) -> list[Any]:
    try:
        array = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        array = None
    if isinstance(array, list):
        return array
    parts = [part.strip() for part in text.split(",")]
    return [parse_assignment(f"{key}={part}")[1] for part in parts] if all(parts) else []


def parse_seeds(text: str) -> list[int]:
    """Seeds: numbers and ranges.

    >>> parse_seeds("0,1,5..7")
    [0, 1, 5, 6, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,19})\s*(?:\.\.\s*([0-9]{1,19})\s*)?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < min(2**63, first + 10_000):
            raise ConfigError(f"--seeds {text!r}: {part.strip()!r} is no seed. Give numbers, as in 0,1,2 or 0..4.")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def parse_part(text: str) -> tuple[int, int]:
    """Which part of how many.

    >>> parse_part("1/3")
    (1, 3)
    """
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigError(f"--part {text!r} is not of the form 1/3: the first of three parts.")
    return int(found[1]), int(found[2])


def _name(method: str, chosen: Iterable[tuple[str, Any]]) -> str:
    parts = [method, *(f"{key.removeprefix(_OWN)}={value}" for key, value in chosen)]
    return "-".join(re.sub(r"[^\w.,=:@+-]+", "_", part) for part in parts)[:120]
