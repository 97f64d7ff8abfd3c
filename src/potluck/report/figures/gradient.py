"""The mean squared norm of the gradient, which the convergence theorems bound."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import mean
from typing import TYPE_CHECKING

from potluck.metrics.observe import GRADIENT
from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.observed import by_round
from potluck.report.figures.style import INK, legend_below, look, sheet

if TYPE_CHECKING:
    from potluck.results import Group

_HOW = "it was not recorded; ask for it with --set measure=gradient-norm when a run is made"


def gradient_plot(groups: Sequence[Group]) -> Plot:
    """For each method the mean over rounds so far, beside a line that falls as 1/T."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    courses = {number: course for number, group in enumerate(groups) if len(course := _course(group)) > 1}
    if not courses:
        raise NoFigureError(_HOW)
    figure, axes = sheet()
    for number, course in courses.items():
        colour, marker, line = look(number)
        rounds = range(1, len(course) + 1)
        every = max(1, len(course) // 8)
        axes.plot(
            rounds, course, color=colour, marker=marker, linestyle=line, markevery=every, label=groups[number].title
        )
    longest, start = max(map(len, courses.values())), max(course[0] for course in courses.values())
    axes.plot([1, longest], [start, start / longest], color=INK, linewidth=0.9, linestyle=":", label="falls as 1/T")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for each in (axes.xaxis, axes.yaxis):
        each.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
        each.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        each.set_minor_locator(NullLocator())
    axes.set_xlabel("communication rounds T")
    axes.set_ylabel("mean squared gradient norm")
    labels = axes.get_legend_handles_labels()[1]
    legend_below(figure, axes, len(labels), max(map(len, labels)))
    caption = (
        "Squared norm of the gradient of the clients' losses over all their training samples, after local training, as "
        "a mean over the rounds so far and over seeds; both axes are logarithmic. A line parallel to the dotted one "
        "falls as O(1/T), the rate of the convergence theorems; one that flattens has met its constant term."
    )
    return Plot("gradient", "Gradient norm against O(1/T)", caption, {"": figure})


def _course(group: Group) -> list[float]:
    """The mean over the rounds so far, mean over seeds."""
    seeds = [list(by_round(run, GRADIENT).values()) for run in group.runs]
    running = [[total / number for number, total in enumerate(accumulate(each), 1)] for each in seeds]
    return [mean(values) for values in zip(*running, strict=False)]
