"""How accuracy is spread over clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.style import INK, look, sheet, wrapped

if TYPE_CHECKING:
    from potluck.results import Group


def box_plot(groups: Sequence[Group]) -> Plot:
    """A box for each method: what its clients reached in the end."""
    values = [_accuracies(group) for group in groups]
    if not any(values):
        raise NoFigureError("no client was evaluated at the end")
    names = [wrapped(group.title, 20) for group in groups]
    lines = sum(max(2, name.count("\n") + 1) for name in names)
    figure, axes = sheet(0.75 + 0.18 * lines)
    places = [-number for number in range(len(groups))]
    axes.boxplot(
        values,
        positions=places,
        orientation="horizontal",
        widths=0.55,
        showmeans=True,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"linewidth": 0.9, "edgecolor": INK},
        whiskerprops={"linewidth": 0.9, "color": INK},
        capprops={"linewidth": 0.9, "color": INK},
        medianprops={"linewidth": 1.6, "color": INK},
        meanprops={"marker": "+", "markeredgecolor": INK, "markersize": 8, "markeredgewidth": 1.4},
        flierprops={"marker": ".", "markersize": 3.5, "markerfacecolor": INK, "markeredgewidth": 0, "alpha": 0.55},
    )
    for number, patch in enumerate(box for box in axes.patches):
        patch.set_facecolor(look(number).colour)
        patch.set_alpha(0.75)
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(places[-1] - 0.6, 0.6)
    axes.set_xlabel("test accuracy of a client (%)")
    seeds = max(len(group.runs) for group in groups)
    pooled = " of all seeds" if seeds > 1 else ""
    caption = (
        f"Accuracy of every client{pooled} when all were last evaluated. A box holds the middle half of the clients, "
        "the line in it is the median, + the mean, dots are clients far from the rest. Narrow and far right is better."
    )
    return Plot("clients", "Accuracy over clients", caption, {"": figure})


def _accuracies(group: Group) -> list[float]:
    found = [value for run in group.runs for value in run.client_accuracies().values()]
    return [100 * value for value in found if not math.isnan(value)]
