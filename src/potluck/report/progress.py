"""How a run goes, live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from potluck.report.format import percent

Watch = Callable[[dict[str, Any]], None]
"""Called with each event of a run: ``{"event": "train" | "evaluate" | "round", ...}``."""


@contextmanager
def progress(console: Console, rounds: int, done: int) -> Iterator[Watch]:
    """A live bar over the rounds: round, accuracy, time left."""
    bar = Progress(
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("accuracy {task.fields[accuracy]} %"),
        TextColumn("[dim]{task.fields[doing]}[/dim]"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=console,
        speed_estimate_period=3600,
    )
    with bar:
        task = bar.add_task("rounds", total=rounds, completed=done, accuracy="-", doing="")

        def watch(event: dict[str, Any]) -> None:
            if event["event"] == "round":
                accuracy = event["all"] or event["participants"]
                bar.update(task, completed=event["round"], accuracy=percent(accuracy["accuracy"]), doing="")
            else:
                verb = "training" if event["event"] == "train" else "evaluating everyone"
                bar.update(task, doing=f"{verb} {event['done']}/{event['total']}")

        yield watch


@contextmanager
def downloads(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A live bar for each file that arrives: how much of it, how fast, time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console) as bar:
        tasks: dict[str, TaskID] = {}

        def watch(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done)

        yield watch
