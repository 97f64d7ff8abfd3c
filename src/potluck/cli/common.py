"""What the commands share: flags, and how they speak."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.errors import PotluckError
from potluck.messages import visible

if TYPE_CHECKING:
    from rich.console import Console

DataDir = Annotated[
    str | None, typer.Option(help=r"Folder with data sets. \[default: $POTLUCK_DATA, then ~/.cache/potluck]")
]
PARTITIONS = (
    "How clients share the data: pathological:K, dirichlet:GAMMA, balanced-dirichlet:ALPHA, two-classes or iid."
)
SPLITS = "Train, validation and test: release, official, or a ratio such as 8:1:1 or 8:2."
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def console_for(as_json: bool = False) -> Console:
    """Where to print: results belong on standard output; what a person would watch besides JSON on standard error."""
    from potluck.report.console import SafeConsole

    return SafeConsole(stderr=as_json)


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print one line as it is, so that a path or a command in it can be copied; control characters are written out."""
    console.print(visible(text), style=style, markup=False, highlight=False, soft_wrap=True)


def say_json(content: Any) -> None:
    """Print JSON, and nothing that a strict parser or a terminal would not take."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def say_error(error: Exception | str) -> None:
    """Print what ended a command."""
    # A line break in a name is none in the message.
    lines = error.args if isinstance(error, PotluckError) else [error]
    typer.echo("potluck: " + "\n".join(visible(str(line)) for line in lines), err=True)
