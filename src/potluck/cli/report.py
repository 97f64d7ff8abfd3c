"""The command ``potluck report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.common import DataDir, console_for, say

app = typer.Typer()


@app.command()
def report(
    paths: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders that hold some.")],
    out: Annotated[
        Path | None,
        typer.Option(help=r"Folder for the report. \[default: beside the runs; the run itself if only one]"),
    ] = None,
    data_dir: DataDir = None,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out figures that need the clients' networks.")] = False,
) -> None:
    """Make a page of tables and figures from one or more runs.

    Runs that differ in the seed alone are one method. The page, report.html,
    needs nothing else; its figures are beside it as PDF and PNG.
    """
    from potluck.report.figures.base import require_drawing

    require_drawing()
    from potluck.report.page import write_report

    console = console_for()
    with console.status("reading") as status:
        page = write_report(
            paths,
            out,
            data_dir=data_dir,
            quick=quick,
            warn=lambda text: say(console, text, style="yellow"),
            tell=lambda text: status.update(f"{text} ..."),
        )
    say(console, f"Written to {page}, with figures as PDF and PNG beside it.")
