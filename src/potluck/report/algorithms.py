"""The algorithms that can be asked for by name: what travels, what they need, what can be set."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import torch
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from potluck import algorithms, models
from potluck.algorithms import Algorithm
from potluck.errors import AlgorithmError, ConfigError, ModelError
from potluck.metrics.traffic import Traffic, measure_traffic
from potluck.report.format import size

_SYMBOLS = {Gt: "> {0.gt}", Ge: ">= {0.ge}", Lt: "< {0.lt}", Le: "<= {0.le}"}


@dataclass(frozen=True)
class Row:
    """An algorithm in one line; what travels is None where it cannot work with the chosen networks."""

    name: str
    title: str
    paper: str
    down: str
    up: str
    needs: list[str]
    at_most: bool
    traffic: Traffic | None
    unfit: str | None


@dataclass(frozen=True)
class Setting:
    """One setting of an algorithm, in words."""

    name: str
    default: Any
    range: str
    paper: str
    meaning: str


def overview(
    spec: str,
    shape: tuple[int, ...],
    classes: int,
    held: int,
    names: Sequence[str] | None = None,
    watch: Callable[[str], None] = lambda _name: None,
) -> list[Row]:
    """Look at algorithms, each measured with its default settings.

    Args:
        spec: Networks of the clients, as in the setting ``models`` of a run.
        shape: Shape of one input.
        classes: Number of classes.
        held: How many of them a client has.
        names: Which algorithms; all without.
        watch: Told which one is being measured.
    """
    networks = models.assignment(spec)
    with torch.device("meta"):
        for network in dict.fromkeys(networks):
            models.build(network, shape, classes)  # one that cannot be made fits no algorithm: an error
    rows = []
    for name in names or algorithms.names():
        watch(name)
        method = algorithms.algorithm(name)
        traffic, unfit = None, None
        try:
            traffic = measure_traffic(method, networks, shape, classes, held)
        except (AlgorithmError, ConfigError, ModelError) as error:
            if held > classes:
                raise
            unfit = str(error)
        needs = sorted(method.needs)
        rows.append(
            Row(
                name,
                method.title,
                method.venue or method.paper,
                method.down,
                method.up,
                list(needs),
                method.compresses,
                traffic,
                unfit,
            )
        )
    return rows


def plain(rows: Sequence[Row], spec: str, shape: tuple[int, ...], classes: int, held: int) -> dict[str, Any]:
    """The overview as plain values."""
    return {
        "version": 1,
        "models": spec,
        "shape": list(shape),
        "classes": classes,
        "classes_per_client": held,
        "algorithms": [asdict(row) for row in rows],
    }


def algorithm_table(rows: Sequence[Row], spec: str, shape: tuple[int, ...], classes: int, held: int) -> RenderableType:
    """The algorithms side by side."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("name, paper, needs")
    table.add_column("goes down, comes up")
    table.add_column("bytes", justify="right", no_wrap=True)
    for row in rows:
        most = "≤ " if row.at_most else ""
        down, up = ("-", "-") if row.traffic is None else (most + size(row.traffic.down), most + size(row.traffic.up))
        needs = f"  needs {', '.join(row.needs)}" if row.needs else ""
        name = f"[bold]{row.name}[/bold][yellow]{needs}[/yellow]\n[dim]{escape(row.paper)}[/dim]"
        table.add_row(name, f"[blue]↓[/blue] {row.down}\n[green]↑[/green] {row.up}", f"{down}\n{up}")
    inputs = " x ".join(map(str, shape))
    notes = [
        f"Bytes: numbers alone, per client and round, with {spec}, inputs of {inputs}, {held} of {classes} classes at "
        f"a client.{_equal_models(rows, spec)}",
        *(["≤: less, where what was learned can be compressed."] if any(row.at_most for row in rows) else []),
        *_remarks(rows),
        "Settings of one: potluck algorithms NAME",
    ]
    return Group(table, *notes)


def _equal_models(rows: Sequence[Row], spec: str) -> str:
    """Which network stands for all where they must be equal, if there is a choice."""
    networks = models.assignment(spec)
    chosen = len(set(networks)) > 1 and any("equal models" in row.needs for row in rows)
    return f" Where all models must be equal, they are {networks[0]}." if chosen else ""


def _remarks(rows: Sequence[Row]) -> list[str]:
    """Why some do not fit, each reason once: it begins with the method's title, and is else the same for many."""
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        if row.unfit:
            reasons.setdefault(row.unfit.removeprefix(row.title), []).append(row)
    return [
        f"[bold]{', '.join(row.name for row in alike)}[/bold]: {escape(alike[0].unfit or '')}"
        for alike in reasons.values()
    ]


def settings(kind: type[Algorithm]) -> list[Setting]:
    """The settings of an algorithm, with ranges and the values its paper used."""
    rows = []
    for name, field in kind.model_fields.items():
        more = field.json_schema_extra
        paper = more.get("paper") if isinstance(more, dict) else None
        rows.append(Setting(name, field.default, _range(field), str(paper or "not said"), field.description or ""))
    return rows


def _range(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    annotation: Any = field.annotation
    choices = get_args(annotation)
    if annotation is bool:
        return "true, false"
    if choices and all(isinstance(choice, str) for choice in choices):
        return ", ".join(choices)
    kinds = {int: "whole number", float: "number", str: "text"}
    words = kinds.get(annotation) or next((kinds[choice] for choice in choices if choice in kinds), "")
    limits = [_SYMBOLS[type(limit)].format(limit) for limit in field.metadata if type(limit) in _SYMBOLS]
    return " ".join([words, ", ".join(limits)]).strip()


def setting_table(kind: type[Algorithm]) -> RenderableType:
    """An algorithm explained: its paper, how it works, what can be set."""
    text = re.sub(r"``(.+?)``", r"\1", inspect.cleandoc(kind.__doc__ or ""), flags=re.DOTALL)
    # Lines of a paragraph are joined, for the terminal to break them where it ends; points of a list are not.
    text = re.sub(r"(?<!\n)\n *(?!\n| *[0-9]\.)", " ", text)
    heading = f"[bold]{kind.title}[/bold]  {escape(kind.paper)}"
    explained = Padding(escape(text), (1, 2))
    found = settings(kind)
    if not found:
        return Group(heading, explained, "It has no settings of its own.")
    blocks: list[RenderableType] = []
    for row in found:
        default, limits = escape(_plain(row.default)), escape(row.range)
        blocks += [
            f"[bold]{row.name}[/bold] = [cyan]{default}[/cyan]  [dim]{limits}[/dim]",
            Padding(escape(f"{row.meaning}. In the paper: {row.paper}."), (0, 0, 0, 4)),
        ]
    example = f"potluck run {kind.name} --set algorithm.{found[0].name}={_plain(found[0].default)}"
    return Group(heading, explained, *blocks, f"\nFor example: {example}")


def _plain(value: Any) -> str:
    """A value as it is written in a file or on the command line."""
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
