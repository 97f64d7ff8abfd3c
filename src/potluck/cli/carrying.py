"""Carrying out many runs from a command, with one view of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from potluck.cli.common import say
from potluck.cli.stopping import stopping

if TYPE_CHECKING:
    from rich.console import Console

    from potluck.compare.places import Place
    from potluck.compare.working import Outcome


def carry_out(
    console: Console, places: Sequence[Place], jobs: int, out: Path, *, score: str = "accuracy"
) -> dict[Place, Outcome]:
    """Run what is left to run, and say what went wrong; ends the command if it was stopped.

    Args:
        console: Where to show how it goes.
        places: The runs.
        jobs: How many of them side by side.
        out: Where all of them are.
        score: Which number of a round is shown.
    """
    from potluck.compare.running import run_places
    from potluck.compare.watching import view
    from potluck.compare.working import Stop

    left = [place for place in places if not place.finished]
    if not left:
        return {}
    stop = Stop()

    def ask() -> None:
        stop.ask()
        say(console, "Stopping after the steps that are running ...")

    with view(console, left, score) as tell, stopping(ask):
        outcomes = run_places(left, jobs, tell, stop)
    for place, outcome in outcomes.items():
        text = "another process is running it; it is left to that one." if outcome.verdict == "busy" else outcome.text
        if text:
            say(console, f"{place.cell}: {text}", style="yellow")
    if stop.asked:
        say(console, f"Stopped. Go on with it by the same command; all that is done lies in {out}.")
        raise typer.Exit(130)
    return outcomes
