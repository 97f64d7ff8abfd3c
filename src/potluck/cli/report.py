"""The command ``potluck report``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.common import DataDir, console_for, say

if TYPE_CHECKING:
    from rich.console import Console

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
    write_page(console_for(), paths, out, data_dir=data_dir, quick=quick)


def write_page(
    console: Console,
    paths: Sequence[Path],
    out: Path | None,
    *,
    data_dir: str | None = None,
    quick: bool = False,
    meant: Collection[str] = (),
) -> None:
    """Write the report of runs, and say where it is; settings that are ``meant`` to differ are no warning."""
    from potluck.report.page import write_report

    with console.status("reading") as status:
        page = write_report(
            paths,
            out,
            data_dir=data_dir,
            quick=quick,
            meant=meant,
            warn=lambda text: say(console, text, style="yellow"),
            tell=lambda text: status.update(f"{text} ..."),
        )
    say(console, f"Written to {page}, with figures as PDF and PNG beside it.")
