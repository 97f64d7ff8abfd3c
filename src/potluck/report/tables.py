"""How tables look on a terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table


def plain_table(title: str, *, gap: int = 1, **more: Any) -> Table:
    """A table with a title and a line under its headings.

    Args:
        title: What it shows.
        gap: Blanks between columns.
        **more: Anything else that a table of rich takes.
    """
    return Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0),
        pad_edge=False, **more,
    )  # fmt: skip
