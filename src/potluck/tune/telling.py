"""What a search found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from potluck.algorithms import find
from potluck.report.format import percent
from potluck.report.tables import plain_table
from potluck.tune.searching import Search


def table(found: Sequence[Search]) -> Table:
    """The best settings of each method, and what they gain on validation data."""
    shown = plain_table("Validation accuracy (%), all clients, last round", gap=2)
    shown.add_column("method")
    for heading in ("trials", "as it was", "best"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("settings of the best")
    for each in found:
        best = each.best
        settings = [
            f"{_short(key)} {value}" for key, value in (best.values if best else {}).items() if value is not None
        ]
        shown.add_row(
            f"[bold]{find(each.method).title}[/bold]",
            str(len(each.tried)),
            percent(each.tried[0].score),
            percent(best.score if best else None),
            escape(", ".join(settings) or "nothing to look for"),
        )
    return shown


def plain(found: Sequence[Search]) -> dict[str, Any]:
    """The same as plain values, with every trial."""
    return {
        "version": 1,
        "methods": [
            {
                "method": each.method,
                "best": each.best and each.best._asdict(),
                "trials": [tried._asdict() for tried in each.tried],
            }
            for each in found
        ],
    }


def _short(key: str) -> str:
    return key.removeprefix("algorithm.")
