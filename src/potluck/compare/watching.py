"""How a comparison goes, live: a line for each run that is under way, and a bar for all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from potluck.compare.places import Place
from potluck.compare.working import Tell
from potluck.report.format import duration, percent
from potluck.report.progress import bars_of_rounds

_EVERY = 15.0
"""Seconds between two lines of a run where there is no terminal for bars."""
_SHORT = {"accuracy": "", "validation_accuracy": "valid. "}
"""How a score is called beside a bar, where there is little room."""
_ENDS = {"done": "done", "busy": "left to the process that runs it", "stopped": "stopped", "failed": "failed"}


@contextmanager
def view(console: Console, places: Sequence[Place], score: str = "accuracy") -> Iterator[Tell]:
    """Show how runs go: bars on a terminal, lines elsewhere.

    Args:
        console: Where.
        places: The runs.
        score: Which number of a round is shown: ``accuracy`` or ``validation_accuracy``.
    """
    if not (console.is_terminal or console.is_jupyter):
        yield _lines(console, places, score)
        return
    bars = bars_of_rounds(
        console,
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[unit]}"),
        TextColumn("{task.fields[accuracy]}"),
    )
    with bars:
        yield _bars(bars, places, score)


def _bars(bars: Progress, places: Sequence[Place], score: str) -> Tell:
    # Rounds stand for work: what was there before is no progress of this command.
    overall = bars.add_task("all runs", total=sum(place.cell.config.rounds for place in places), unit="rounds",
                            accuracy="")  # fmt: skip
    tasks: dict[Place, TaskID] = {}

    def tell(place: Place, event: dict[str, Any]) -> None:
        rounds = place.cell.config.rounds
        if place not in tasks:
            tasks[place] = bars.add_task(str(place.cell), total=rounds, unit="rounds", accuracy="")
        task = tasks[place]
        before = next(each.completed for each in bars.tasks if each.id == task)
        if event["event"] == "end":
            bars.remove_task(tasks.pop(place))
            # What is left to another process may be tried again; what is stopped has got as far as it has.
            rest = {"busy": -before, "stopped": 0}.get(event["verdict"], rounds - before)
            bars.update(overall, advance=rest)
            return
        accuracy = f"{_SHORT[score]}{percent(event[score])} %" if score in event else ""
        bars.update(task, completed=event["round"], accuracy=accuracy)
        bars.update(overall, advance=event["round"] - before)

    return tell


def _lines(console: Console, places: Sequence[Place], score: str) -> Tell:
    begin, last, over = time.monotonic(), dict.fromkeys(places, time.monotonic()), 0

    def tell(place: Place, event: dict[str, Any]) -> None:
        nonlocal over
        now, rounds, said = time.monotonic(), place.cell.config.rounds, ""
        if event["event"] == "begin":
            said = f"begins after round {event['round']} of {rounds}" if event["round"] else "begins"
        elif event["event"] == "end":
            over += event["verdict"] in ("done", "failed")
            said = f"{_ENDS[event['verdict']]}, {over} of {len(places)} runs, {duration(now - begin)}"
        elif now - last[place] > _EVERY:
            said = f"round {event['round']} of {rounds}, {score.replace('_', ' ')} {percent(event[score])} %"
        if said:
            last[place] = now
            console.print(f"{place.cell}: {said}", soft_wrap=True, markup=False, highlight=False)

    return tell
