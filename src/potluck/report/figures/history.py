"""A history that shows itself, in a notebook or wherever a figure can go."""

from __future__ import annotations

import html
from base64 import b64encode
from typing import TYPE_CHECKING

from potluck.errors import ConfigError
from potluck.metrics.protocol import MEANING
from potluck.report.figures.axes import write_ticks, x_axis
from potluck.report.figures.style import drawing, legend_below, look, sheet
from potluck.report.format import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from potluck.metrics.protocol import History

_LINES = {
    "participants": ("participants", "accuracy", "participants of each round"),
    "all": ("all", "accuracy", "all clients"),
    "validation": ("all", "validation_accuracy", "all clients, validation"),
}


def history_figure(history: History, x: str = "rounds") -> Figure:
    """Accuracy over ``x``, which is rounds, bytes, flops or seconds: of participants, of all clients, in validation."""
    axis = x_axis(x)
    if x == "epochs":
        raise ConfigError("a history does not know of local epochs: draw it over rounds, bytes, flops or seconds.")
    places = axis.places(history.rounds)
    with drawing():
        figure, axes = sheet()
        drawn = 0
        for number, (who, score, label) in enumerate(_LINES.values()):
            points = [
                (place, 100 * record[who][score])
                for place, record in zip(places, history.rounds, strict=True)
                if record["round"] > 0 and record[who] is not None and record[who][score] is not None
            ]
            if points:
                colour, marker, line = look(number)
                marker = marker if len(points) <= 30 else ""
                axes.plot(*zip(*points, strict=True), color=colour, marker=marker, linestyle=line, label=label)
                drawn += 1
        axes.set_ylabel("accuracy (%)")
        write_ticks(axes, axis)
        if drawn:
            legend_below(figure, axes, drawn, 26)
    return figure


def history_html(history: History) -> str:
    """A table of the protocols, and the curve."""
    summary = history.summary
    rows = "".join(
        f"<tr><td style='text-align:left'>{html.escape(text)}</td><td>{percent(summary[protocol])}</td></tr>"
        for protocol, text in MEANING.items()
    )
    head = f"<tr><th style='text-align:left'>after {summary['rounds']} rounds</th><th>accuracy (%)</th></tr>"
    table = f"<table>{head}{rows}</table>"
    picture = b64encode(history_png(history)).decode()
    return f"{table}<img alt='accuracy over rounds' src='data:image/png;base64,{picture}' style='max-width:100%'>"


def history_png(history: History) -> bytes:
    """The curve over rounds as a picture."""
    from io import BytesIO

    figure = history_figure(history)
    file = BytesIO()
    with drawing():
        figure.savefig(file, format="png", dpi=110, facecolor="white")
    return file.getvalue()
