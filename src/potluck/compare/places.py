"""Where the runs of a comparison lie, and how far each of them is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from potluck.compare.grid import Cell
from potluck.config import make_config
from potluck.errors import ConfigError, PotluckError, RunError
from potluck.results.reading import runs_below
from potluck.run.folder import RunFolder
from potluck.run.record import FREE, changes


@dataclass(frozen=True, eq=False)
class Place:
    """A cell, and the folder of its run."""

    cell: Cell
    path: Path

    @property
    def begun(self) -> bool:
        """Whether there is such a run."""
        return (self.path / "config.toml").is_file()

    @property
    def finished(self) -> bool:
        """Whether it ran to its end."""
        return self.begun and RunFolder.open(self.path).summary() is not None


def place(cells: Iterable[Cell], out: Path) -> list[Place]:
    """Find each cell's folder: the run of the same settings that is there already, or a new one by name.

    Raises:
        RunError: where the folder that a cell would go to holds another run.
    """
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file, and no folder for runs. Give another --out.")
    there = _there(out)
    taken: set[Path] = set()
    places = []
    for cell in cells:
        path = there.get(_identity(cell.config.complete()))
        if path is None:
            path = _free(out, cell, taken)
        taken.add(path)
        places.append(Place(cell, path))
    return places


def _free(out: Path, cell: Cell, taken: set[Path]) -> Path:
    """A new folder for a cell. Two cells may be called the same once their names are fit for a folder."""
    for number in range(1, 1000):
        name = cell.name if number == 1 else f"{cell.name}-{number}"
        path = out / name / f"seed-{cell.config.seed}"
        if path in taken:
            continue
        if (path / "config.toml").is_file():
            there = _complete(path)
            if not isinstance(there.get("algorithm"), dict):
                raise RunError(
                    f"{path} is there already, and is no run: its config.toml names no algorithm. "
                    "Give another --out, or remove it."
                )
            details = changes(there, cell.config.complete())
            raise RunError(
                f"{path} is there already, with other settings: {details}. Give another --out, or the same settings."
            )
        if path.exists():
            raise RunError(f"{path} is there already, and is no run. Give another --out, or remove it.")
        return path
    raise RunError(f"{out} has too many folders called {cell.name}.")  # pragma: no cover


def configs_in(out: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The runs in a folder, each with its whole configuration; what cannot be read is none of ours."""
    for path in runs_below(out):
        try:
            yield path, _complete(path)
        except PotluckError:
            continue


def _there(out: Path) -> dict[str, Path]:
    """The runs in a folder by their settings."""
    return {_identity(config): path for path, config in configs_in(out)}


def _complete(path: Path) -> dict[str, Any]:
    """The configuration of a run, completed as one of today would be."""
    config = RunFolder.open(path).config()
    try:
        return make_config(config).complete()
    except ConfigError:
        return config


def _identity(config: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in config.items() if key not in FREE}, sort_keys=True, default=str)
