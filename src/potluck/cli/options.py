"""The options of ``potluck run``, for every command that runs experiments."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from potluck.cli.common import PARTITIONS, SPLITS, DataDir

METHODS = (
    "standalone, fedavg, fedprox, lg-fedavg, pfedes, fedgh, pfedafm, fedclassavg, fml, fedkd, fedapen, fd, fedproto, "
    "fedtgp, kt-pfl; 'potluck algorithms' explains them."
)


def _declared(
    data: Annotated[
        str | None,
        typer.Option(
            help=r"Data set (see 'potluck data list'), folder of images or .npz file. \[default: fashion-mnist-10k]"
        ),
    ] = None,
    data_dir: DataDir = None,
    split: Annotated[str | None, typer.Option(help=rf"{SPLITS} \[default: the data set's own]")] = None,
    partition: Annotated[str | None, typer.Option(help=rf"{PARTITIONS} \[default: pathological:2]")] = None,
    clients: Annotated[int | None, typer.Option(help=r"Number of clients. \[default: 10]")] = None,
    fraction: Annotated[float | None, typer.Option(help=r"Share of clients per round. \[default: 1.0]")] = None,
    models: Annotated[
        str | None, typer.Option(help=r"Networks of the clients (see 'potluck models'). \[default: cnn-1..5]")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help=r"Communication rounds. \[default: 50]")] = None,
    engine: Annotated[
        str | None, typer.Option(help=r"Where clients execute: loop, stacked or auto. \[default: auto]")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help=r"cpu, cuda, cuda:1 or auto; or several, as in cuda:0,cuda:1. \[default: auto]")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other setting.")] = None,
) -> None:
    """Only its signature counts."""


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options that say what runs; it takes them together as ``given``."""
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(_declared, eval_str=True).parameters
    mine = [parameter for name, parameter in own.parameters.items() if name != "given"]
    last = [parameter for parameter in mine if parameter.name in ("out", "as_json")]
    first = [parameter for parameter in mine if parameter not in last]

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in shared}
        command(given=given, **arguments)

    parameters = [*first, *shared.values(), *last]
    with_options.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def settings_by_method(
    given: Mapping[str, Any], methods: Sequence[str]
) -> Callable[[str, Sequence[tuple[str, Any]]], dict[str, Any]]:
    """How to get the settings of one of several methods; a ``--set`` may be of some of them alone."""
    from potluck.compare.grid import refuse_unknown, resolve
    from potluck.config import parse_assignment

    sets = [parse_assignment(text) for text in given["sets"] or []]
    for key, _ in sets:
        refuse_unknown(key, methods)

    def settings(method: str, assignments: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        own = [(meant, value) for key, value in sets if (meant := resolve(key, method)) is not None]
        return settings_of(given, method, assignments, sets=own)

    return settings


def settings_of(
    given: Mapping[str, Any],
    algorithm: str | None,
    assignments: Sequence[tuple[str, Any]] = (),
    sets: Sequence[tuple[str, Any]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The settings of one experiment: flags win over ``--set``, ``--set`` over the file, the file over defaults.

    Args:
        given: What :func:`run_options` gave.
        algorithm: The method, if it was named.
        assignments: Win over everything.
        sets: What ``--set`` says to this experiment, where it is not the same for all.
        **more: Further flags.
    """
    from potluck.config import merge, parse_assignment, read_file
    from potluck.data.sources import absolute

    settings = read_file(given["config"]) if given["config"] else {}
    if algorithm is not None:
        # First of all, too: the file may be of another algorithm, whose settings do not count.
        settings = merge(settings, {"algorithm.name": algorithm})
    chosen = [parse_assignment(text) for text in given["sets"] or []] if sets is None else sets
    settings = merge(settings, dict(chosen))
    flags = {name: value for name, value in given.items() if name not in ("config", "sets")}
    flags |= {**more, "algorithm.name": algorithm}
    settings = merge(settings, {key: value for key, value in flags.items() if value is not None})
    settings = merge(settings, dict(assignments))
    # A resume may be asked for from another folder.
    if (folder := settings.get("data_dir")) and isinstance(folder, str):
        settings["data_dir"] = os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100, PTH111
    if isinstance(name := settings.get("data"), str):
        settings["data"] = absolute(name)
    return settings
