"""The command line: what there is to type, a file for each group of commands."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from potluck import __version__
from potluck.cli import algorithms, compare, data, models, report, runs, tune
from potluck.cli.common import say_error
from potluck.errors import DataWarning, PotluckError

app = typer.Typer(
    name="potluck",
    help="Federated learning where every client brings its own network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(runs.app)
app.add_typer(compare.app)
app.add_typer(tune.app)
app.add_typer(report.app)
app.add_typer(algorithms.app)
app.add_typer(models.app)
app.add_typer(data.app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Federated learning where every client brings its own network."""


def main() -> None:
    """Run the command line; a mistake ends in one clear message and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A class may be called by letters that the terminal does not have.
            stream.reconfigure(errors="replace")
    _let_waiting_threads_sleep()
    try:
        with _warnings_in_a_line():
            app()
    except (PotluckError, OSError) as error:
        # An OSError is what nobody foresaw: a folder that vanished, standard output on a disk that is full.
        say_error(error)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        reason = str(error).strip().partition("\n")[0] or "none is left"
        say_error(f"there is not enough memory: {reason}. Take smaller models, a smaller batch_size, or fewer clients.")
        sys.exit(2)


def _is_out_of_memory(error: Exception) -> bool:
    from potluck.algorithms.hooks import is_out_of_memory

    return is_out_of_memory(error)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """While active, a warning about data is one line on standard error, without the place in the code."""
    with warnings.catch_warnings():
        other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, DataWarning):
                say_error(f"warning: {message}")
            else:
                other(message, category, *where, **more)

        warnings.simplefilter("default", DataWarning)
        warnings.showwarning = show
        yield


def _let_waiting_threads_sleep() -> None:
    """Let PyTorch's threads sleep while they wait for each other, unless the user chose how they wait.

    By default they spin, which takes cores from all that runs beside: several runs that start at once then hardly get
    anywhere. OpenMP reads this once, when PyTorch is loaded, so it is chosen here, before any command loads it.
    """
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY"}:
        os.environ["OMP_WAIT_POLICY"] = "passive"
