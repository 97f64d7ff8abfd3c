"""How a run goes, live."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from potluck.report.format import duration, percent, size
from potluck.watching import Watch

_EVERY = 15.0
"""Seconds between two lines where there is no terminal for a bar."""


def bars_of_rounds(console: Console, *columns: ProgressColumn) -> Progress:
    """Bars with these columns, and the time that has gone and is left; rounds are slow, so it is judged by an hour."""
    time = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False)
    return Progress(*columns, *time, console=console, speed_estimate_period=3600)


@contextmanager
def progress(console: Console, rounds: int, done: int) -> Iterator[Watch]:
    """How the rounds go: a live bar on a terminal, a line now and then elsewhere."""
    if not (console.is_terminal or console.is_jupyter):
        yield _lines(console, rounds)
        return
    bar = bars_of_rounds(
        console,
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("accuracy {task.fields[accuracy]} %"),
        TextColumn("[dim]{task.fields[doing]}[/dim]"),
    )
    with bar:
        task = bar.add_task("rounds", total=rounds, completed=done, accuracy="-", doing="")

        def watch(event: dict[str, Any]) -> None:
            if event["event"] == "round":
                accuracy = event["all"] or event["participants"]
                bar.update(task, completed=event["round"], accuracy=percent(accuracy["accuracy"]), doing="")
            elif event["event"] in ("train", "evaluate"):
                verb = "training" if event["event"] == "train" else "evaluating everyone"
                bar.update(task, doing=f"{verb} {event['done']}/{event['total']}")

        yield watch


@contextmanager
def downloads(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """For each file that arrives how much of it: a live bar on a terminal, a line now and then elsewhere."""
    if not (console.is_terminal or console.is_jupyter):
        yield _download_lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    bar = Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console)
    tasks: dict[str, TaskID] = {}

    def watch(name: str, done: int, total: int) -> None:
        if name not in tasks:
            tasks[name] = bar.add_task(name, total=total)
            bar.start()  # not before: perhaps there is nothing to fetch
        bar.update(tasks[name], completed=done)

    try:
        yield watch
    finally:
        if tasks:
            bar.stop()


def _download_lines(console: Console) -> Callable[[str, int, int], None]:
    last = time.monotonic()
    complete: set[str] = set()

    def watch(name: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if name not in complete and (done >= total or now - last > _EVERY):
            last = now
            console.print(f"{name}: {size(done)} of {size(total)}", soft_wrap=True, markup=False, highlight=False)
            if done >= total:
                complete.add(name)

    return watch


def _lines(console: Console, rounds: int) -> Watch:
    begin = last = time.monotonic()

    def watch(event: dict[str, Any]) -> None:
        nonlocal last
        now = time.monotonic()
        if event["event"] == "round" and (now - last > _EVERY or event["round"] == rounds):
            last = now
            accuracy = percent((event["all"] or event["participants"])["accuracy"])
            console.print(
                f"round {event['round']}/{rounds}, accuracy {accuracy} %, {duration(now - begin)}", soft_wrap=True
            )

    return watch
