"""The same samples under every method of a comparison, also where one of them sets public samples aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from potluck.compare.grid import Cell
from potluck.compare.places import configs_in
from potluck.results import Group, RunResult


def share_alike(cells: Sequence[Cell], out: Path) -> tuple[list[Cell], str]:
    """Set public samples aside under every method if a method of the comparison needs them.

    Clients then train on the same samples under all methods, and can be paired. What is in the folder decides for what
    is added to it: beside runs that train on the public samples as well, those of other methods go on doing so.

    Args:
        cells: The runs that are asked for.
        out: Folder of the comparison, which may hold runs already.

    Returns:
        The runs, and what is to be said about it; nothing where no method needs public samples.
    """
    there = [config for _, config in configs_in(out)]
    needing = {*_public(cell.config.model_dump() for cell in cells), *_public(there)}
    own = [cell for cell in cells if cell.config.set_aside is None]
    if not needing or not own:
        return list(cells), ""
    if any(config.get("set_aside") is None for config in there):
        return list(cells), (
            f"{out} holds runs that train on all samples, and a method that sets public samples aside: its clients "
            "hold fewer, and are not paired with others. With a new --out, all methods have the same samples."
        )
    update: dict[str, Any] = {"set_aside": "public"}
    if len(needing) == 1:
        (update["public"],) = needing
    alike = [
        Cell(cell.name, cell.config.model_copy(update=update)) if cell.config.set_aside is None else cell
        for cell in cells
    ]
    counts = " or ".join(f"{count:,}" for count in sorted(needing))
    return alike, f"{counts} public samples are set aside under every method, so that all train on the same samples."


def samples(group: Group) -> tuple[int, int] | None:
    """The fewest and the most training samples that a client holds, in any run; None where that is not recorded."""
    counts = [count for run in group.runs for count in _counts(run) or ()]
    return (min(counts), max(counts)) if counts else None


def unequal(groups: Sequence[Group]) -> bool:
    """Whether runs of one seed give their clients different numbers of training samples."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for run in (run for group in groups for run in group.runs):
        if counts := _counts(run):
            found.setdefault(run.seed, set()).add(tuple(counts))
    return any(len(counts) > 1 for counts in found.values())


def _counts(run: RunResult) -> list[int] | None:
    return run.inputs.counts() if run.inputs else None


def _public(configs: Iterable[dict[str, Any]]) -> set[int]:
    """How many public samples runs set aside; empty where none does."""
    found = (config.get("public") for config in configs if config.get("set_aside") == "public")
    return {count for count in found if type(count) is int}  # a damaged configuration may say anything
