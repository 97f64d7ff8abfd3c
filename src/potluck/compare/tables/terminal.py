"""The table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from potluck.compare.comparing import Comparison
from potluck.compare.tables.gains import gain_heading, gain_lines
from potluck.compare.tables.words import Line, has_intervals, lines, notes, target_name
from potluck.metrics.protocol import MEANING
from potluck.report.tables import plain_table


def show(console: Console, comparison: Comparison) -> None:
    """Print a comparison, with what there is to know about it."""
    table = plain_table(f"Test accuracy (%), {MEANING[comparison.protocol]}", gap=2)
    table.add_column("method\nseeds", overflow="fold", min_width=12)
    mean = "mean ± sd" if any(len(row.group.runs) > 1 for row in comparison.rows) else "mean"
    intervals = has_intervals(comparison)
    for heading in (
        f"{mean}\n95 % interval" if intervals else mean,
        f"difference from\n{escape(comparison.baseline_title)}\np-value{' (Holm)' if comparison.tests > 1 else ''}",
        "whole run:\nbytes\nFLOPs\n(server)",
        f"up to {target_name(comparison)}:\nbytes\nFLOPs",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines(comparison):
        accuracy = f"[bold]{line.accuracy}[/bold]" if line.best else line.accuracy
        table.add_row(
            f"[bold]{escape(line.method)}[/bold]\n[dim]{_under(line)}[/dim]",
            f"{accuracy}\n[dim]{escape(line.interval)}[/dim]" if intervals else accuracy,
            f"{line.difference}\n[dim]{line.p}[/dim]",
            f"{line.bytes}\n{line.flops}\n[dim]{line.server_flops}[/dim]",
            f"{line.target_bytes}\n{line.target_flops}",
        )
    console.print(table)
    if helped := gain_lines(comparison):
        console.print(gain_heading(comparison), markup=False, highlight=False)
        for sentence in helped:
            console.print(sentence, markup=False, highlight=False)
        console.print()
    for note in notes(comparison):
        console.print(note, style="dim", markup=False, highlight=False)
    for warning in comparison.warnings:
        console.print(warning, style="yellow", markup=False, highlight=False)


def _under(line: Line) -> str:
    """What stands under a method: its seeds, and its clients' training samples where they differ."""
    seeds = f"{line.seeds} seed{'' if line.seeds == '1' else 's'}"
    return f"{seeds}\n{line.samples}" if line.samples else seeds
