"""Which clients a method helps, and which it does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from potluck.compare.pairing import differences
from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.style import COLOURS, INK, sheet, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from potluck.results import Group

_MOST = 4
"""Pairs that are drawn."""


def differences_plot(groups: Sequence[Group]) -> Plot:
    """Bars, sorted: how much better each client is by the best method than by another."""
    if len(groups) < 2:
        raise NoFigureError("there is only one method to look at")
    scores = {number: mean(found) for number, group in enumerate(groups) if (found := _means(group))}
    order = sorted(scores, key=lambda number: -scores[number])
    versions: dict[str, Figure] = {}
    for other in order[1:]:
        pairs = paired(groups[order[0]], groups[other])
        if pairs and len(versions) < _MOST:
            versions[f"{groups[order[0]].title} vs {groups[other].title}"] = _draw(
                pairs, groups[order[0]].title, groups[other].title
            )
    if not versions:
        raise NoFigureError("no two methods have a seed, and clients with the same samples, in common")
    more = "" if len(order) - 1 <= _MOST else f" Only the {_MOST} best others are drawn."
    caption = (
        "Each bar is a client: its accuracy by the method with the highest mean, minus its accuracy by another method, "
        f"means over the seeds that both have, sorted. Bars below zero are clients for whom it is worse.{more}"
    )
    return Plot("differences", "Client by client", caption, versions)


def paired(one: Group, other: Group) -> dict[int, float]:
    """By how many points each client is better by the one, mean over the seeds that both have."""
    found, _ = differences(one, other, "all_last")
    clients = sorted(one.runs[0].client_accuracies())
    points = {} if found is None else dict(zip(clients, (100 * found).tolist(), strict=True))
    return {client: value for client, value in points.items() if not math.isnan(value)}


def _draw(points: dict[int, float], one: str, other: str) -> Figure:
    order = sorted(points, key=lambda client: -points[client])
    values = [points[client] for client in order]
    figure, axes = sheet(3.0)
    colours = [COLOURS[0] if value > 0 else COLOURS[6] for value in values]
    axes.bar(range(len(values)), values, color=colours, width=0.85 if len(values) < 60 else 1.0)
    axes.axhline(0, color=INK, linewidth=0.8)
    average = mean(values)
    axes.axhline(average, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    better, worse = sum(value > 0 for value in values), sum(value < 0 for value in values)
    axes.set_title(
        f"{wrapped(f'{one} minus {other}', 52)}\n"
        f"better for {better}, worse for {worse} of {len(values)}, mean {average:+.2f} (dashed)",
        loc="left",
    )
    if len(order) <= 30:
        axes.set_xticks(range(len(order)), [str(client) for client in order], fontsize=8 if len(order) <= 20 else 6.5)
        axes.set_xlabel("client")
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(order)} clients, sorted")
    axes.set_ylabel("difference in points")
    axes.grid(visible=False, axis="x")
    return figure


def _means(group: Group) -> list[float]:
    return [value for run in group.runs if (value := run.accuracy()) is not None]
