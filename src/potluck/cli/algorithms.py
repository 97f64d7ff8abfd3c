"""The command ``potluck algorithms``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from potluck.cli.common import DataDir, Json, console_for, say_json

app = typer.Typer()


@app.command()
def algorithms(
    name: Annotated[
        str | None, typer.Argument(help=r"A method, for its settings. \[default: all, side by side]")
    ] = None,
    models: Annotated[str, typer.Option(help="Networks of the clients.")] = "cnn-1..5",
    shape: Annotated[str | None, typer.Option(help=r"Shape of one input. \[default: 3,32,32]")] = None,
    classes: Annotated[int | None, typer.Option(min=1, max=10_000, help=r"Classes. \[default: 10]")] = None,
    data: Annotated[str | None, typer.Option(help="Data set that has the shape and classes.")] = None,
    data_dir: DataDir = None,
    held: Annotated[int, typer.Option(min=1, help="Classes that a client has.")] = 2,
    as_json: Json = False,
) -> None:
    """List the methods: what travels and how much, what they need; or explain one, with its settings.

    Examples:
      potluck algorithms

      potluck algorithms --classes 100 --held 10

      potluck algorithms pfedafm
    """
    import torch

    from potluck.algorithms import find
    from potluck.report.algorithms import algorithm_table, overview, plain, setting_table, settings
    from potluck.report.models import inputs_of

    if name is not None:
        kind = find(name)
        if as_json:
            found = [asdict(setting) for setting in settings(kind)]
            say_json({"version": 1, "name": kind.name, "paper": kind.paper, "settings": found})
        else:
            console_for().print(setting_table(kind))
        return
    torch.set_num_threads(1)  # a few samples at a time: more threads would only wait for each other
    inputs, outputs = inputs_of(shape, classes, data, data_dir)
    with console_for(True).status("measuring") as status:
        rows = overview(models, inputs, outputs, held, watch=lambda each: status.update(f"measuring {each}"))
    chosen = (rows, models, inputs, outputs, held)
    if as_json:
        say_json(plain(*chosen))
    else:
        console_for().print(algorithm_table(*chosen))
