"""How figures look: colours that the colour-blind can tell apart, markers and lines for print, one size of text.

Colours are those of Petroff, "Accessible Color Sequences for Data Visualization" (2021). A page replaces them, and
those of text, lines and paper, by its own, which may be dark.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

INK, FAINT, PAPER = "#20242a", "#d5d9de", "#fffffe"
"""Text and axes; grid lines; what stands for the page behind. Unlike any colour of data, for a page to find them."""

BLANK = "#eceef0"
"""An empty cell of a map: the same on any page, for the colours of a map are too."""

COLOURS = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#94a4a2"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))

WIDTH = 4.6
"""Inches: narrow enough for a column of a paper or a phone, with text that is then still read."""

_LONGEST = 46
"""Letters of a line of a legend."""

_RULES: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "potluck",
    "pdf.fonttype": 42,
    "text.parse_math": False,
}


class Look(NamedTuple):
    """How one of several is told from the others: by colour, by marker and by line."""

    colour: str
    marker: str
    line: Any


def look(number: int) -> Look:
    """The look of the method, class or client of this number.

    >>> look(0) == look(1), look(3)[:2]
    (False, ('#832db6', 'D'))
    """
    return Look(
        COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], _LINES[(number + number // 10) % len(_LINES)]
    )


@contextmanager
def drawing() -> Iterator[None]:
    """While active, what is drawn and written follows these rules, whatever a user has set for figures of their own."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        rules: Any = _RULES  # as many keys as matplotlib has, and its types name each
        matplotlib.rcParams.update(rules)
        yield


def sheet(height: float = 3.2, width: float = WIDTH) -> tuple[Figure, Axes]:
    """An empty figure with axes, laid out when it is written."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def scale_beside(figure: Figure, image: AxesImage, axes: Axes) -> Colorbar:
    """What the colours of a map mean."""
    bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=25)
    bar.outline.set_edgecolor(INK)
    bar.outline.set_linewidth(0.6)
    return bar


def wrapped(text: str, width: int) -> str:
    """A long name on several lines, for names of methods may tell many settings."""
    return "\n".join(textwrap.wrap(text, width, break_long_words=True)) or text


def legend_below(figure: Figure, axes: Axes, entries: int, longest: int) -> None:
    """A legend under the axes, in as many columns as fit, for which the figure grows."""
    rows = -(-entries // max(1, min(3, 58 // (longest + 8))))
    columns = -(-entries // rows)
    lines = -(-longest // _LONGEST)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.19 * rows * lines + 0.05)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        [wrapped(label, _LONGEST) for label in labels],
        loc="outside lower center",
        ncols=columns,
        columnspacing=1.2,
    )
