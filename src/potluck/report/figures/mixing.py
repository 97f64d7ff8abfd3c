"""How far pFedAFM's clients rely on their own features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from potluck.report.figures.axes import AXES, write_ticks
from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.observed import by_client
from potluck.report.figures.style import COLOURS, INK, legend_below, look, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from potluck.results import Group, RunResult


def mixing_plot(groups: Sequence[Group]) -> Plot | None:
    """The mean of the mixing vector over rounds, of all who took part and of two clients; None without pFedAFM."""
    ours = [group for group in groups if group.algorithm == "pfedafm"]
    if not ours:
        return None
    versions = {group.title: figure for group in ours if (figure := _draw(group.runs[0])) is not None}
    if not versions:
        raise NoFigureError("the mixing vector was not recorded in these runs")
    caption = (
        "The mean of the mixing vector alpha, by the first seed: 1 means that a client predicts with its own features "
        "alone, 0 with those of the shared extractor alone. The band holds the middle 80 % of those who took part in a "
        "round; lines with markers are the two clients that took part most often."
    )
    if len(versions) == 1:
        versions = {"": next(iter(versions.values()))}
    return Plot("mixing", "Mixing vector", caption, versions)


def _draw(run: RunResult) -> Figure | None:
    import numpy as np

    clients = by_client(run, "mixing")
    if not clients:
        return None
    rounds = sorted({number for course in clients.values() for number in course})
    values = [[course[number] for course in clients.values() if number in course] for number in rounds]
    low, middle, high = (np.array([np.quantile(each, share) for each in values]) for share in (0.1, 0.5, 0.9))
    figure, axes = sheet(2.9)
    axes.fill_between(rounds, low, high, color=COLOURS[0], alpha=0.22, linewidth=0, label="middle 80 %")
    axes.plot(rounds, middle, color=INK, linewidth=1.4, label="median")
    often = sorted(clients, key=lambda client: (-len(clients[client]), client))[:2]
    for number, client in enumerate(often, 1):
        course = sorted(clients[client].items())
        colour, marker, line = look(number)
        axes.plot(
            *zip(*course, strict=True), color=colour, marker=marker, linestyle=line, linewidth=1.1,
            markevery=max(1, len(course) // 8), label=f"client {client}",
        )  # fmt: skip
    axes.set_ylim(min(0.0, float(low.min())), max(1.02, float(high.max())))
    axes.set_ylabel("mean of alpha")
    write_ticks(axes, AXES["rounds"])
    legend_below(figure, axes, 2 + len(often), 11)
    return figure
