"""What accuracy costs in communication and in computation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from potluck.report.figures.axes import AXES, write_ticks
from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.style import INK, PAPER, legend_below, look, sheet
from potluck.report.format import operations

if TYPE_CHECKING:
    from potluck.results import Group

_LARGEST = 420.0
"""Area of the largest marker, in square points."""


def tradeoff_plot(groups: Sequence[Group]) -> Plot:
    """A marker for each method: accuracy over bytes, as large as its operations are many."""
    known = [(number, group) for number, group in enumerate(groups) if _accuracy(group) is not None]
    if not known:
        raise NoFigureError("no client was evaluated at the end")
    sent = {number: _cost(group, "bytes_up") + _cost(group, "bytes_down") for number, group in known}
    work = {number: _cost(group, "flops") for number, group in known}
    figure, axes = sheet()
    positive = [value for value in sent.values() if value > 0]
    wide = bool(positive) and max(positive) > 30 * min(positive)
    if wide:
        # Who sends nothing has a place too, left of all others.
        axes.set_xscale("symlog", linthresh=10.0 ** _digits(min(positive)))
    most = max(*work.values(), 1.0)
    for number, group in known:
        colour, marker, _ = look(number)
        area = 18 + _LARGEST * work[number] / most
        axes.scatter(
            sent[number], 100 * (_accuracy(group) or 0), s=area, color=colour, marker=marker, alpha=0.8,
            edgecolor=PAPER, linewidth=0.6, zorder=3,
        )  # fmt: skip
        axes.scatter(
            [], [], s=36, color=colour, marker=marker, label=f"{group.title} ({operations(round(work[number]))})"
        )
    axes.margins(x=0.16, y=0.2)
    if min(sent.values()) == 0:
        low, high = axes.get_xlim()
        axes.set_xlim(-0.35 * 10.0 ** _digits(min(positive)) if wide else low, high)
        axes.axvline(0, color=INK, linewidth=0.5)
    write_ticks(axes, AXES["bytes"])
    axes.set_ylabel("test accuracy (%)")
    labels = axes.get_legend_handles_labels()[1]
    legend_below(figure, axes, len(labels), max(map(len, labels)))
    caption = (
        "Accuracy of all clients in the last round over all bytes sent and received; the area of a marker, and the "
        "number in brackets, are the floating-point operations of clients and server. Small and in the upper left "
        "corner is better."
    )
    return Plot("tradeoff", "Accuracy, communication and computation", caption, {"": figure})


def _accuracy(group: Group) -> float | None:
    found = [value for run in group.runs if (value := run.accuracy()) is not None]
    return mean(found) if found else None


def _cost(group: Group, name: str) -> float:
    return mean(float(run.summary[name]) for run in group.runs)


def _digits(value: float) -> int:
    """The power of ten below a number."""
    return len(str(int(value))) - 1
