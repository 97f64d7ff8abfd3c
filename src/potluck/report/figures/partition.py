"""Who has how many samples of which class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from potluck.errors import PotluckError
from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.opened import one_line
from potluck.report.figures.style import BLANK, WIDTH, scale_beside, sheet
from potluck.report.format import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from potluck.report.figures.opened import Opened
    from potluck.results import Group, RunResult

_MOST = 4


def partition_plot(groups: Sequence[Group], opened: Opened) -> Plot:
    """A map: training samples of each class at each client, for each way in which the runs share their data."""
    ways: dict[str, RunResult] = {}
    for group in groups:
        run = group.runs[0]
        name = " ".join(str(run.config[key]) for key in ("data", "partition") if key in run.config)
        name += f" {run.config['clients']} clients"
        ways.setdefault(name, run)
    versions = {name: _draw(run, opened) for name, run in list(ways.items())[:_MOST]}
    if len(versions) == 1:
        versions = {"": next(iter(versions.values()))}
    seed = next(iter(ways.values())).seed
    caption = (
        f"Training samples of each class (rows) at each client (columns), by seed {seed}; blank is none. "
        "Few coloured cells in a column mean a client that sees little of the whole."
    )
    return Plot("partition", "Who has what", caption, versions)


def _counts(run: RunResult, opened: Opened) -> tuple[Tensor, Sequence[str]]:
    from potluck.config import make_config
    from potluck.experiment import share_out
    from potluck.report.data import class_counts

    source = opened.source(run)
    try:
        shares = share_out(make_config(run.config), source)
    except PotluckError as error:
        raise NoFigureError(one_line(error)) from error
    return class_counts(source, shares.clients)["train"], source.class_names


def _draw(run: RunResult, opened: Opened) -> Figure:
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    counts, names = _counts(run, opened)
    values = counts.T.numpy().astype(float)
    values[values == 0] = np.nan
    few = len(names) <= 30
    figure, axes = sheet(min(5.0, 1.2 + (0.2 if few else 0.035) * len(names)), WIDTH)
    image = axes.imshow(values, aspect="auto", cmap="cividis_r", interpolation="nearest", vmin=0)
    axes.set_facecolor(BLANK)
    axes.grid(visible=False)
    axes.set_xlabel("client")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    if few:
        axes.set_yticks(range(len(names)), [short(name, 14) for name in names])
    else:
        axes.set_ylabel("class")
        axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    scale_beside(figure, image, axes).set_label("samples")
    return figure
