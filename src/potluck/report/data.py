"""What data sets look like on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import torch
from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from potluck.data.sources import Source
from potluck.report.format import short, size

_ROWS = 20


def list_table(rows: Sequence[tuple[str, str, str | None, int | None]]) -> Table:
    """Data sets: name, what is in it, where it is, and how many bytes there are to fetch."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("data set", no_wrap=True)
    table.add_column("what is in it, and where it is", overflow="fold")
    for name, about, where, to_fetch in rows:
        place = escape(where) if where else f"not here; {size(to_fetch or 0)} to fetch"
        table.add_row(f"[bold]{name}[/bold]", f"{about}\n[dim]{place}[/dim]")
    return table


def class_balance(source: Source, pools: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """For each pool, given by its rows, how many samples of each class there are."""
    return {pool: torch.bincount(source.y[rows], minlength=source.classes) for pool, rows in pools.items()}


def class_counts(source: Source, rows: Mapping[str, Sequence[Tensor]]) -> dict[str, Tensor]:
    """For each pool how many samples of each class every client has, of shape [clients, classes]."""
    return {
        pool: torch.stack([torch.bincount(source.y[own], minlength=source.classes) for own in owned])
        for pool, owned in rows.items()
    }


def overview(source: Source, balance: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> str:
    """A data set in one line: how many samples there are of what, and how many no client gets.

    Args:
        source: The data set.
        balance: For each pool the samples of each class.
        counts: For each pool the samples of each class at each client.
    """
    shape = "x".join(map(str, source.shape))
    verbs = {"train": "train on", "validation": "validate on", "test": "test on"}
    totals = {pool: int(values.sum()) for pool, values in balance.items()}
    parts = ", ".join(f"{total:,} to {verbs[pool]}" for pool, total in totals.items() if total)
    left = sum(totals.values()) - sum(int(values.sum()) for values in counts.values())
    nobody = f"; no client gets {left:,} of them" if left else ""
    return (
        f"[bold]{escape(source.name)}[/bold]: {len(source.y):,} images of {shape} in {source.classes} classes; "
        f"{parts}{nobody}"
    )


def balance_table(counts: Mapping[str, Tensor], class_names: Sequence[str]) -> RenderableType:
    """How many samples of each class there are."""
    pools = {pool: values.tolist() for pool, values in counts.items()}
    totals = [sum(values) for values in zip(*pools.values(), strict=True)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("class")
    for pool in pools:
        table.add_column(pool, justify="right")
    table.add_column("")
    for label, name in enumerate(class_names[:_ROWS]):
        bar = "━" * round(20 * totals[label] / max(1, *totals))
        table.add_row(escape(short(name)), *(f"{values[label]:,}" for values in pools.values()), f"[blue]{bar}[/blue]")
    return Group(table, *_more(len(class_names), "classes"))


def client_table(counts: Mapping[str, Tensor], class_names: Sequence[str]) -> RenderableType:
    """Who has what: for each pool a tensor [clients, classes]."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("client", justify="right")
    for pool in counts:
        table.add_column(pool, justify="right")
    table.add_column("classes", justify="right")
    table.add_column("largest classes")
    train = counts["train"]
    for client in range(min(_ROWS, len(train))):
        held = [label for label in train[client].argsort(descending=True, stable=True).tolist() if train[client, label]]
        largest = ", ".join(f"{short(class_names[label])}: {int(train[client, label]):,}" for label in held[:2])
        sizes = (f"{int(values[client].sum()):,}" for values in counts.values())
        table.add_row(str(client), *sizes, str(len(held)), escape(largest))
    samples, classes = _span(train.sum(1).tolist()), _span((train > 0).sum(1).tolist())
    return Group(table, *_more(len(train), "clients"), f"per client: {samples} samples to train on, {classes} classes")


def _more(count: int, what: str) -> list[str]:
    return [f"[dim]and {count - _ROWS:,} {what} more[/dim]"] if count > _ROWS else []


def _span(values: Sequence[int]) -> str:
    if min(values) == max(values):
        return f"{min(values):,}"
    return f"{min(values):,} to {max(values):,} (median {median(values):,.0f})"
