"""The command ``potluck models``."""

from __future__ import annotations

from typing import Annotated

import typer

from potluck.cli.common import DataDir, Json, console_for, say_json

app = typer.Typer()


@app.command()
def models(
    spec: Annotated[str | None, typer.Argument(help=r"Networks: cnn-1..5,resnet-18@500. \[default: all]")] = None,
    shape: Annotated[str | None, typer.Option(help=r"Shape of one input. \[default: 3,32,32]")] = None,
    classes: Annotated[int | None, typer.Option(min=1, max=1_000_000, help=r"Classes. \[default: 10]")] = None,
    data: Annotated[str | None, typer.Option(help="Data set that has the shape and classes.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """List the networks that clients can take: parameters, forward FLOP per sample, size."""
    from potluck.report.models import model_table, overview

    found = overview(spec, shape, classes, data, data_dir)
    if as_json:
        say_json(found.plain())
        return
    console_for().print(model_table(found))
