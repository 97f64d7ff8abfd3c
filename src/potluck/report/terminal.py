"""What a run looks like on the terminal: what will run, and what came out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from potluck.config import RunConfig
from potluck.federation import Federation
from potluck.metrics.protocol import MEANING
from potluck.report.evaluation import evaluation_note
from potluck.report.format import duration, operations, percent, size
from potluck.report.tables import plain_table
from potluck.results.grouping import title_of


def announce(console: Console, config: RunConfig, federation: Federation) -> None:
    """Say what will run."""
    method = config.method()
    settings = ", ".join(f"{key} {value}" for key, value in method.model_dump().items() if value is not None)
    samples = [len(client.train) for client in federation.clients]
    tests = [len(client.test) for client in federation.clients]
    split = f"split {config.split}, " if config.split else ""
    tree = Tree(f"[bold]{method.title}[/bold]", highlight=True)
    lines = {
        "settings": settings,
        "data": f"{config.data}, {split}{config.partition}, augmentation {config.augmentation}",
        "clients": f"{config.clients}, {federation.cohort_size} per round, {_networks(config)}",
        "samples": f"{_span(samples)} to train on, {_span(tests)} to test on, per client",
        "training": f"{_count(config.rounds, 'round')} of {_count(config.epochs, 'epoch')}, "
        f"batches of {config.batch_size}, {config.optimizer} at {config.learning_rate}",
        "engine": f"{federation.engine.name} on {', '.join(map(str, federation.devices))}, "
        f"{federation.setting.precision.name}, seed {config.seed}",
        "notes": " ".join(federation.prepare()),
    }
    for name, text in lines.items():
        if text:
            # A grid, so that a long text is broken in its own column.
            line = Table.grid(Column(width=10), Column())
            line.highlight = True
            line.add_row(name, escape(text))
            tree.add(line)
    console.print(tree)


def _networks(config: RunConfig) -> str:
    by_chance = " at random" if config.assignment == "random" else ""
    own = ", each with initial weights of its own" if config.initial_weights == "per-client" else ""
    return f"models {config.models}{by_chance}{own}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low}-{high}"


_COLUMNS = {
    "last": "accuracy of all clients after the last round: the number to compare",
    "best": "the same in the round in which validation accuracy was best",
    "papers": "accuracy of a round's participants in the best round by test accuracy,\n"
    "which is how papers report it: optimistic",
    "sent": "bytes that all clients sent to the server, over all rounds",
    "received": "bytes that all clients received from it",
    "FLOPs": "floating-point operations; beneath, the server's share of them",
    "time": "of all rounds together",
}
"""What the columns of :func:`result_table` mean."""


def result_table(summaries: Mapping[str, Mapping[str, Any]], seconds: Mapping[str, float]) -> RenderableType:
    """Runs side by side: accuracy under each named protocol, and what it cost; and what each column means."""
    table = plain_table("Test accuracy in percent, mean over clients; and what it cost")
    table.add_column("method\nrun", overflow="fold", min_width=12)
    for heading in _COLUMNS:
        table.add_column(f"\n{heading}", justify="right", no_wrap=True)
    for name, summary in summaries.items():
        table.add_row(
            f"[bold]{escape(title_of(summary['algorithm']['name']))}[/bold]\n[dim]{escape(name)}[/dim]",
            *(percent(summary[protocol]) for protocol in MEANING),
            size(summary["bytes_up"]),
            size(summary["bytes_down"]),
            f"{operations(summary['flops'])}\n[dim]{operations(summary['server_flops'])}[/dim]",
            duration(seconds[name]),
        )
    legend = Table.grid(Column(width=max(map(len, _COLUMNS)) + 2), Column(no_wrap=True))
    for heading, meaning in _COLUMNS.items():
        legend.add_row(heading, meaning, style="dim")
    notes = (
        [Text(note, style="dim")] if (note := evaluation_note(each["algorithm"] for each in summaries.values())) else []
    )
    return Group(table, legend, *notes)


def client_table(accuracies: Iterable[float | None]) -> RenderableType:
    """Every client's accuracy when all were last evaluated, with the spread."""
    values = list(accuracies)
    known = [value for value in values if value is not None]
    if not known:
        return "No client has been evaluated yet."
    table = Table(box=None, show_header=False)
    for row in range(0, len(values), 10):
        table.add_row(f"[dim]{row}[/dim]", *(percent(value) for value in values[row : row + 10]))
    spread = f"lowest {percent(min(known))}, median {percent(median(known))}, highest {percent(max(known))}"
    return Group("[bold]Accuracy of each client, when all were last evaluated (%)[/bold]", table, spread)
