"""Runs with their data sets and client networks, opened when a figure first needs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from potluck.errors import PotluckError
from potluck.report.figures.base import NoFigureError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from potluck.client import Client
    from potluck.data.sources import Source
    from potluck.federation import Federation
    from potluck.results import RunResult


class Opened:
    """Opens runs, each once.

    Args:
        data_dir: Where data sets are, if not where the runs found them.
    """

    def __init__(self, data_dir: str | None = None) -> None:
        self._data_dir = data_dir
        self._federations: dict[Path, Federation | str] = {}
        self._sources: dict[tuple[str, str | None], Source] = {}

    def federation(self, run: RunResult) -> Federation:
        """The run with what its clients held in the end."""
        if run.path not in self._federations:
            self._federations[run.path] = self._open(run)
        found = self._federations[run.path]
        if isinstance(found, str):
            raise NoFigureError(found)
        return found

    def source(self, run: RunResult) -> Source:
        """The data set of a run."""
        from potluck.data import sources
        from potluck.federation import GIVEN

        key = (str(run.config.get("data", GIVEN)), self._data_dir or run.config.get("data_dir"))
        if key[0] == GIVEN:
            raise NoFigureError(f"{run.path.name} was made from Python with data of its own")
        if key not in self._sources:
            try:
                self._sources[key] = sources.load(*key)
            except PotluckError as error:
                raise NoFigureError(one_line(error)) from error
        return self._sources[key]

    def _open(self, run: RunResult) -> Federation | str:
        from potluck.experiment import open_run

        if not (run.path / "checkpoint").is_dir() or not (run.path / "clients").is_dir():
            return f"{run.path.name} has no networks of clients in its folder"
        try:
            return open_run(run.path, data_dir=self._data_dir)
        except PotluckError as error:
            return one_line(error)


def representations(federation: Federation, client: Client, x: Tensor) -> Tensor:
    """What the body of a client's own model makes of inputs."""
    import torch

    networks = federation.networks(client)
    with torch.no_grad():
        result: Tensor = networks["body"](plain(federation, x)).flatten(1)
    return result


def plain(federation: Federation, x: Tensor) -> Tensor:
    """Inputs as networks see them in a test."""
    return federation.setting.transform.plain(x, federation.setting.dtype)


def own_model(federation: Federation, client: Client) -> tuple[nn.Module, nn.Linear]:
    """The two parts of a client's own model; its head must be one linear layer."""
    from torch import nn

    networks = federation.networks(client)
    if not isinstance(networks["head"], nn.Linear):
        raise NoFigureError("a client's head is not one linear layer")
    return networks["body"], networks["head"]


def one_line(error: Exception) -> str:
    """What is wrong, in one line and without a full stop."""
    return " ".join(str(error).split()).rstrip(".")
