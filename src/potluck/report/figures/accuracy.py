"""Accuracy as a run goes on, over rounds and over what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING

from potluck.report.figures.axes import AXES, XAxis, local_epochs, write_ticks
from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.style import legend_below, look, sheet
from potluck.significance import LEAST_SEEDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from potluck.results import Group, RoundResult, RunResult

_MOST = 200
"""Points of a line: more could not be told apart, and would make pages large."""


@dataclass(frozen=True)
class Curve:
    """Accuracy (%) of a method as it goes on: mean and standard deviation over seeds."""

    x: list[float]
    mean: list[float]
    deviation: list[float]


def accuracy_plot(groups: Sequence[Group]) -> Plot:
    """A line for each method, with a band from three seeds on, in a version for each thing to draw over."""
    # With few evaluations of all clients there is no line to see; participants are evaluated in every round.
    everyone = any(len(_evaluated(run, everyone=True)) > 2 for group in groups for run in group.runs)
    if not any(_evaluated(run, everyone) for group in groups for run in group.runs):
        raise NoFigureError("no client has test samples")
    who = "all clients" if everyone else "the clients that took part in each round"
    several = any(len(group.runs) > 1 for group in groups)
    banded = any(len(group.runs) >= LEAST_SEEDS for group in groups)
    band = f" and seeds{'; bands are one standard deviation over seeds' if banded else ''}" if several else ""
    caption = (
        f"Mean test accuracy of {who}{band}. Higher and further left is better. Choose what it is drawn over: "
        "what is cheap in rounds may not be in bytes or operations."
    )
    names = {"epochs": "local epochs", "flops": "FLOPs"}
    versions = {names.get(name, name): _draw(groups, axis, everyone) for name, axis in AXES.items()}
    return Plot("accuracy", "Accuracy as runs go on", caption, versions)


def _draw(groups: Sequence[Group], axis: XAxis, everyone: bool) -> Figure:
    figure, axes = sheet()
    curves = [curve(group, axis, everyone) for group in groups]
    free = [not each.x or (axis.costly and each.x[-1] == 0) for each in curves]
    ends = [each.x[-1] for each, is_free in zip(curves, free, strict=True) if not is_free]
    if axis.costly and ends and max(ends) > 30 * min(ends):
        axes.set_xscale("log")
    labels = []
    for number, (group, each, is_free) in enumerate(zip(groups, curves, free, strict=True)):
        if not each.x:
            continue
        labels.append(f"{group.title} (at the end)" if is_free else group.title)
        if is_free:
            how = {"color": look(number).colour, "linestyle": look(number).line, "linewidth": 1.1}
            axes.axhline(each.mean[-1], **how)
            axes.plot([], [], **how, label=labels[-1])
        else:
            _line(axes, each, number, labels[-1], banded=len(group.runs) >= LEAST_SEEDS)
    axes.set_ylabel("test accuracy (%)")
    write_ticks(axes, axis)
    legend_below(figure, axes, len(labels), max(map(len, labels), default=0))
    return figure


def _line(axes: Axes, each: Curve, number: int, label: str, *, banded: bool) -> None:
    colour, marker, line = look(number)
    step = max(1, len(each.x) // 7)
    axes.plot(
        each.x, each.mean, color=colour, linestyle=line, marker=marker, markevery=(number % step, step), label=label
    )
    if banded and any(each.deviation):
        # No accuracy is beyond 0 or 100 %, though a deviation may be.
        ends = [(max(m - d, 0), min(m + d, 100)) for m, d in zip(each.mean, each.deviation, strict=True)]
        low, high = zip(*ends, strict=True)
        axes.fill_between(each.x, low, high, color=colour, alpha=0.18, linewidth=0)


def curve(group: Group, axis: XAxis, everyone: bool) -> Curve:
    """The course of a method, at the rounds that all of its seeds were evaluated in."""
    seeds = [_course(run, axis, everyone) for run in group.runs]
    rounds = sorted(set.intersection(*(set(course) for course in seeds)))
    rounds = _thinned(rounds)
    x = [mean(course[number][0] for course in seeds) for number in rounds]
    values = [[course[number][1] for course in seeds] for number in rounds]
    spread = [stdev(each) if len(each) > 1 else 0.0 for each in values]
    return Curve(x, [mean(each) for each in values], spread)


def _course(run: RunResult, axis: XAxis, everyone: bool) -> dict[int, tuple[float, float]]:
    places = axis.places([each.record for each in run.rounds], local_epochs(run))
    at = dict(zip((each.round for each in run.rounds), places, strict=True))
    return {number: (at[number], 100 * value) for number, value in _evaluated(run, everyone).items()}


def _evaluated(run: RunResult, everyone: bool) -> dict[int, float]:
    def value(each: RoundResult) -> float | None:
        return each.everyone if everyone else each.participants

    return {each.round: found for each in run.rounds if each.round > 0 and (found := value(each)) is not None}


def _thinned(rounds: list[int]) -> list[int]:
    step = -(-len(rounds) // _MOST) if rounds else 1
    return sorted({*rounds[::step], *rounds[-1:]})
