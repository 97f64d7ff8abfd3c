"""The search: the same number of trials, of the same rounds and seeds, for every method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potluck.compare.checking import DataCheck
from potluck.compare.grid import Cell, Settings
from potluck.compare.places import Place, place
from potluck.config import RunConfig, make_config
from potluck.data import sources
from potluck.errors import ConfigError, PotluckError
from potluck.experiment import share_out
from potluck.results.reading import read_run
from potluck.settings import flat
from potluck.tune.proposing import Tried, propose
from potluck.tune.space import Space

CarryOut = Callable[[Sequence[Place], str], None]
"""Runs what is not finished of these, under a heading."""


@dataclass
class Search:
    """The search over one method's settings.

    Attributes:
        method: Name of the algorithm.
        space: Where it looks; where there is nothing to look for, its defaults are all there is to try.
        tried: What was tried, in order; first of all the settings as they are.
    """

    method: str
    space: Space
    tried: list[Tried] = field(default_factory=list)

    @property
    def best(self) -> Tried | None:
        """The first of the best; None if every run failed."""
        known = [each for each in self.tried if each.score is not None]
        return max(known, key=lambda each: each.score or 0.0, default=None)


def search(
    spaces: Mapping[str, Space],
    trials: int,
    seeds: Sequence[int],
    settings: Settings,
    out: Path,
    carry_out: CarryOut,
    tell: Callable[[str], None] = lambda _text: None,
) -> list[Search]:
    """Try settings of each method, and see which are best on validation data.

    Every trial is an ordinary run in ``out``; what is finished is not run again, and what was begun goes on.

    Args:
        spaces: For each method where to look.
        trials: How many to make of each, the one of the settings as they are included.
        seeds: Each trial is the mean over runs of these seeds; the first also seeds the search.
        settings: What every run has in common.
        out: Folder of the runs.
        carry_out: Runs them.
        tell: Told what there is to know about runs that are there already.
    """
    refuse_other_data = DataCheck()
    found = [Search(method, space) for method, space in spaces.items()]
    for number in range(trials):
        asked = {each.method: values for each in found if (values := _values(each, seeds[0], settings)) is not None}
        cells = [cell for method, values in asked.items() for cell in _cells(method, number, values, seeds, settings)]
        places = place(cells, out)
        for remark in refuse_other_data(places):
            tell(remark)
        carry_out(places, f"Trial {number + 1} of {trials}")
        scores = _scores(places)
        for each in found:
            if each.method in asked:
                each.tried.append(Tried(asked[each.method], scores.get(each.method)))
    return found


def _values(each: Search, seed: int, settings: Settings) -> dict[str, Any] | None:
    """What to try next of a method: its settings as they are, then what is proposed; None if there is no more."""
    if not each.tried:
        now = flat(make_config(settings(each.method, [])).complete())
        return {key: now.get(key) for key in each.space}
    return propose(each.space, each.tried, each.method, seed) if each.space else None


def _cells(method: str, number: int, values: Mapping[str, Any], seeds: Sequence[int], settings: Settings) -> list[Cell]:
    """The runs of a trial; none if values that are each in their range do not go together."""
    chosen = [(key, value) for key, value in values.items() if value is not None]
    try:
        configs = [make_config(settings(method, [*chosen, ("seed", seed)])) for seed in seeds]
    except ConfigError:
        if number == 0:
            raise
        return []
    return [Cell(f"{method}/trial-{number:03d}", config) for config in configs]


def _scores(places: Sequence[Place]) -> dict[str, float | None]:
    """For each method the mean over its runs; None where one failed."""
    scores: dict[str, list[float | None]] = {}
    for each in places:
        scores.setdefault(each.cell.config.algorithm["name"], []).append(score(each))
    return {
        method: None if None in values else sum(value or 0.0 for value in values) / len(values)
        for method, values in scores.items()
    }


def score(place: Place) -> float | None:
    """Validation accuracy of all clients in the last round: no test sample has a part in it. None if it failed.

    ``RunError`` names a run that ended and is damaged since: it did not fail.
    """
    try:
        run = read_run(place.path)
    except PotluckError:
        if place.finished:
            raise
        return None
    return run.rounds[-1].validation if run.finished else None


def refuse_without_validation(config: RunConfig) -> None:
    """Raise if the split of the data leaves nothing to tune on."""
    source = sources.load(config.data, config.data_dir)
    if not sum(len(rows) for rows in share_out(config, source).clients.get("validation", [])):
        split = config.split or source.default_split
        raise ConfigError(f"the split {split} of {config.data} has no validation data to tune on: give --split 8:1:1.")
