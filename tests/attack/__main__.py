"""Run the attack: ``python -m attack [MODULE ...]``, with ``tests`` on the path; ``make test-attack`` does that."""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import pkgutil
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import attack
from attack.judging import MEANING, Case, Outcome, Verdict
from attack.material import new_session

JOBS = 2
_CASES: list[Case] = []
"""All cases; the processes of the pool are forked when it is filled, for functions cannot be sent to them."""


def gather(names: Sequence[str]) -> list[Case]:
    """The cases of these modules; of all without names."""
    modules = sorted(module.name for module in pkgutil.iter_modules(attack.__path__))
    unknown = set(names) - set(modules)
    if unknown:
        raise SystemExit(f"no module {', '.join(sorted(unknown))}; there are {', '.join(modules)}")
    found: list[Case] = []
    for name in names or modules:
        if name != "__main__":
            found += getattr(importlib.import_module(f"attack.{name}"), "cases", list)()
    twice = [name for name, count in Counter((case.group, case.name) for case in found).items() if count > 1]
    assert not twice, f"the same name twice: {twice}"
    return found


def _load() -> None:
    """Import what commands import when they need it, so that every process has it."""
    import potluck

    for module in pkgutil.walk_packages(potluck.__path__, "potluck."):
        if not module.name.startswith(("potluck.__main__", "potluck.engines.stacked.operations")):
            importlib.import_module(module.name)


def _try(number: int) -> tuple[int, Verdict, float]:
    begin = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix=f"{number}-"))
    try:
        verdict = _CASES[number].run(folder)
    except Exception as error:
        verdict = Verdict("broken", f"{type(error).__name__}: {error}")
    if verdict.outcome == "held":
        shutil.rmtree(folder, ignore_errors=True)
    return number, verdict, time.perf_counter() - begin


def _tables(console: Console, verdicts: dict[int, Verdict]) -> None:
    outcomes: tuple[Outcome, ...] = get_args(Outcome)
    table = Table(*("what was tried", "cases", *outcomes), box=None, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    counts: dict[str, Counter[Outcome]] = {}
    for number in sorted(verdicts):
        counts.setdefault(_CASES[number].group, Counter())[verdicts[number].outcome] += 1
    if len(counts) > 1:
        counts["all"] = sum(counts.values(), Counter())
    for group, each in counts.items():
        table.add_row(group, str(each.total()), *(str(each[outcome] or "-") for outcome in outcomes))
    for number in sorted(verdicts):
        verdict, case = verdicts[number], _CASES[number]
        if verdict.outcome != "held":
            console.print(f"[red]{verdict.outcome}[/red] {escape(f'{case.group}: {case.name}: {verdict.text}')}")
    console.print(table)
    for outcome in outcomes:
        if any(verdict.outcome == outcome for verdict in verdicts.values()):
            console.print(f"[dim]{outcome}: {MEANING[outcome]}[/dim]")


def main() -> int:
    """Try everything; 1 if anything fell short."""
    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("modules", nargs="*", help="which modules to run; all without")
    parser.add_argument("--match", default="", help="only cases with this text in their group or name")
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many cases side by side")
    parser.add_argument("--keep", action="store_true", help="keep the folders of cases that fell short")
    parser.add_argument("--json", type=Path, help="a file to write all verdicts to")
    arguments = parser.parse_args()
    os.environ |= {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "POTLUCK_DATA": os.devnull}
    torch.set_num_threads(1)
    folder = new_session()
    tempfile.tempdir = str(folder)
    _load()
    _CASES.extend(case for case in gather(arguments.modules) if arguments.match in f"{case.group}: {case.name}")
    console, verdicts, times = Console(), {}, {}
    begin = time.perf_counter()
    try:
        with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
            columns = TextColumn("{task.fields[what]}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
            with Progress(TextColumn("attack"), *columns[1:], columns[0], console=console) as bar:
                task = bar.add_task("cases", total=len(_CASES), what="")
                for number, verdict, seconds in pool.imap_unordered(_try, range(len(_CASES))):
                    verdicts[number], times[number] = verdict, seconds
                    bar.update(task, advance=1, what=_CASES[number].group)
    finally:
        if arguments.keep:
            console.print(f"Folders of cases that fell short: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    _tables(console, verdicts)
    console.print(f"{len(verdicts)} cases in {time.perf_counter() - begin:.0f} s")
    if arguments.json:
        rows = [
            {"group": case.group, "name": case.name, **vars(verdicts[number]), "seconds": round(times[number], 2)}
            for number, case in enumerate(_CASES)
        ]
        arguments.json.write_text(json.dumps(rows, indent=1))
    return int(any(verdict.outcome != "held" for verdict in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
