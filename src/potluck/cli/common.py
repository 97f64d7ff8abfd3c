"""What the commands share: flags, and how they speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

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
    from rich.console import Console

    return Console(stderr=as_json)


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a line as it is, so that a path or a command in it can be copied."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
