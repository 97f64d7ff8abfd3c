"""Figures as files, and as drawings that take the colours of the page around them."""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

from potluck.report.figures.style import COLOURS, FAINT, INK, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VARIABLES = {INK: "--ink", FAINT: "--faint", PAPER: "--paper"} | {
    colour: f"--c{number}" for number, colour in enumerate(COLOURS)
}
_DPI = 150


def settle(figure: Figure) -> None:
    """Lay a figure out once, for all files that are made of it."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def as_bytes(figure: Figure, kind: str) -> bytes:
    """A figure as ``png`` or ``pdf``, on white; the same figure gives the same bytes."""
    file = BytesIO()
    metadata = {"pdf": {"CreationDate": None, "Producer": None}, "png": {"Software": None}, "svg": {"Date": None}}
    paper = "none" if kind == "svg" else "white"
    figure.savefig(file, format=kind, facecolor=paper, metadata=metadata[kind], dpi=_DPI)
    return file.getvalue()


def inline(figure: Figure, name: str, says: str) -> str:
    """A figure as SVG to stand in a page: scalable, in the page's colours, with text as text.

    Args:
        figure: The figure.
        name: What its parts are called by, so that several can stand in one page.
        says: What it shows, for those who cannot see it.
    """
    text = as_bytes(figure, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style type=\"text/css\">.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(id=")', rf"\1{name}-", text)
    text = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\1{name}-", text)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)  # names of parts that nothing refers to
    text = re.sub(r"#[0-9a-f]{6}", lambda found: _coloured(found[0]), text)
    box = re.search(r'viewBox="[^"]*"', text)
    head = f'<svg {box[0] if box else ""} role="img" aria-label="{_escaped(says)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    text = re.sub(r"<svg[^>]*>", lambda _: head, text, count=1)
    return re.sub(r"\n\s*", "\n", text)


def _coloured(colour: str) -> str:
    return f"var({_VARIABLES[colour]})" if colour in _VARIABLES else colour


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
