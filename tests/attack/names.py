"""Hostile names of folders, data sets, classes and methods: nothing that is printed or written obeys them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from attack import forms
from attack.finished import clean, finished
from attack.judging import HELD, Case, Ran, Verdict, accepted, command, first_fault, refused
from attack.material import arrays, copy_of
from results import made

STEERING = {
    "a title for the window": "a\x1b]0;owned\x07b",
    "a colour": "\x1b[31mred",
    "a link of the terminal": "\x1b]8;;http:x\x07a",
    "a carriage return": "a\rAll is well",
    "a line feed": "a\nb",
    "lines of a table": "a\n99.99 99.99\n",
    "a tab": "a\tb",
    "an 8-bit control": "a\x9b31mb",
    "a delete": "a\x7fb",
    "a backspace": "a\x08\x08b",
    "right to left": "a\u202egnp.b",
    "an isolate": "a\u2066b",
    "a line separator": "a\u2028b",
    "no width": "a\u200bb",
    "a tag of Unicode": "a\U000e0041b",
    "no UTF-8": "a\udcffb",
}
"""Control sequences, and characters that are invisible."""

MARKUP = {
    "markup of rich": "[red]a[bold]",
    "an emoji by name": ":fire:",
    "a backslash at the end": "a\\",
    "two backslashes at the end": "a\\\\",
    "a script": "<script>alert(1)<!--",
    "an image": "<img src=x onerror=alert(1)>",
    "an attribute": "\"onmouseover=alert(1) x='",
    "entities": "&lt;b&gt;&#x1b;",
    "a template": "{{ 7*7 }}{% raw %}",
    "LaTeX": "$\\input{x}$ & 5% #1 ^_~",
    "LaTeX of a line": "\\\\[9em]",
    "a formula": "=cmd|' C'!A0",
    "a formula with +": "+1+cmd|' C'!A0",
    "a formula with @": "@SUM(1+1)",
    "a formula with -": "-1+cmd|' C'!A0",
    "a quote and a comma": '",=1+1,"',
    "a link": "[click](javascript:alert(1))",
    "a picture": "![x](x.png)",
    "a link by reference": "[x][1]",
    "a link in angles": "<javascript:alert(1)>",
    "an address": "www.example.com a@example.com",
    "code": "`x` ``` ~~~",
    "stressed": "*x* __y__ ~~z~~",
    "cells": "a|b|c",
    "a heading": "# x",
    "an item": "- x",
    "a number": "1. x",
    "a quotation": "> x",
    "a rule": "---",
    "escaped before": "\\[a\\](b)",
}
"""What a form of text would take for its own."""

SHELL = {
    "an option": "-x",
    "a long option": "--json",
    "a command": "$(touch owned)",
    "a command in back quotes": "`touch owned`",
    "two commands": "a; touch owned",
    "a quote": "it's",
    "blanks": " a  b ",
    "a star": "*",
    "a home": "~",
    "hidden": ".x",
    "a format": "%s%n",
    "as long as can be": "x" * 200,
}
"""What a shell would take for its own."""


def _folder(name: str) -> Callable[[Path], Verdict]:
    """A run in a folder of this name: run, shown by the command that is advised, reported, refused."""

    def run(folder: Path) -> Verdict:
        os.chdir(folder)
        first = command(
            *("run", "standalone", "--data", _data(), "--clients", "2", "--rounds", "1", "--models", "mlp-4"),
            *("--device", "cpu", "--out", name),
        )
        path = folder / name
        if not (path / "summary.json").is_file():
            return first_fault(accepted(first), Verdict("silent", f"{name!a} was not made"))
        advised = first.out.rstrip().splitlines()[-1].partition("See every client: ")[2]
        again = command("run", "standalone", "--data", _data(), "--out", name)
        told = again.err.rstrip().rpartition(": ")[2]
        shown, named = _in_shell(advised), _in_shell(told)
        rest = [command("show", path), command("show", path, "--json")]
        resumed = command("resume", path)
        (path / "summary.json").unlink()
        going_on = command("run", "standalone", "--data", _data(), "--out", name)
        on = _in_shell(going_on.err.rstrip().rpartition(": ")[2])
        stray = sorted({each.name for each in folder.iterdir()} - {name})
        return first_fault(
            *map(accepted, (first, shown, named, *rest, on)),
            *(refused(ran, "exists already") for ran in (again, going_on)),
            refused(resumed, "is finished"),
            *map(clean, (first, shown, named, *rest, again, resumed, going_on, on)),
            Verdict("harmed", f"{stray} were made beside it") if stray else HELD,
        )

    return run


def _missing(name: str) -> Callable[[Path], Verdict]:
    """Folders and files of this name that are not there."""

    def run(folder: Path) -> Verdict:
        path = folder / name
        tried = [
            command("show", path),
            command("resume", path),
            command("report", path),
            command("run", "standalone", "--data", f"{path}.npz", "--out", folder / "run"),
            command("run", "standalone", "--data", "mnist", "--data-dir", path, "--out", folder / "run"),
            command("data", "check", f"{path}.npz"),
            command("data", "check", "mnist", "--data-dir", path),
            command("run", "standalone", "--config", f"{path}.toml", "--out", folder / "run"),
            command("run", "standalone", "--set", f"models={name}", "--out", folder / "run"),
            command("compare", "standalone", "--baseline", name, "--out", folder / "run"),
        ]
        return first_fault(*map(refused, tried), *map(clean, tried))

    return run


def _results(name: str) -> Callable[[Path], Verdict]:
    """A method and a data set of this name: shown and compared."""

    def run(folder: Path) -> Verdict:
        runs = [made.run(folder / "runs/a", "standalone"), made.renamed(made.run(folder / "runs/b", "fd"), name)]
        runs.append(made.run(folder / "runs/c", "standalone", settings={"data": f"{name}.npz"}))
        tried = [
            command("show", *runs),
            command("show", *runs, "--json"),
            command("compare", "--out", folder / "runs", "--no-report"),
        ]
        verdict = first_fault(*map(accepted, tried), *map(clean, tried))
        if verdict != HELD:
            return verdict
        return first_fault(
            forms.markdown(folder / "runs/comparison.md", 3),
            forms.csv(folder / "runs/comparison.csv"),
            forms.latex(folder / "runs/comparison.tex"),
        )

    return run


def _page(names: list[str], folder: Path) -> Verdict:
    """One report of methods, data sets and folders of all these names, and of folders that are none."""
    for number, name in enumerate(names):
        run = made.run(folder / "runs" / name, "fd", settings={"data": f"{names[number - 1]}.npz"})
        made.renamed(run, name)
    arguments = [folder / "runs", *(folder / "none" / name for name in names)]
    ran = command("report", *arguments, "--quick", "--out", folder / "page", timeout=600)
    verdict = first_fault(accepted(ran), clean(ran))
    return forms.page(folder / "page/report.html") if verdict == HELD else verdict


def _classes(folder: Path) -> Verdict:
    """Classes of all these names at once."""
    names = [text for name, text in (STEERING | MARKUP | SHELL).items() if name != "no UTF-8"]
    images = arrays(samples=20 * len(names))
    y = np.array([names[row % len(names)] for row in range(len(images["y"]))])
    np.savez(folder / "c.npz", x=images["x"], y=y)
    tried = [
        command("data", "show", folder / "c.npz", "--out", folder / "pictures"),
        command("data", "check", folder / "c.npz"),
        command(
            *("run", "standalone", "--data", folder / "c.npz", "--clients", "2", "--rounds", "1", "--models", "mlp-4"),
            *("--partition", "iid", "--device", "cpu", "--out", folder / "run"),
        ),
        command("report", folder / "run", timeout=600),
    ]
    verdict = first_fault(*map(accepted, tried), *map(clean, tried))
    return forms.page(folder / "run/report.html") if verdict == HELD else verdict


def _within(name: str) -> Callable[[Path], Verdict]:
    """A damaged file in a folder of this name: the message still is one line."""

    def run(folder: Path) -> Verdict:
        path = copy_of(finished(), folder / name)
        (path / "summary.json").write_text("{")
        tried = [command("show", path), command("resume", path), command("report", path)]
        (path / "summary.json").unlink()
        shutil.copy(path / "rounds.jsonl", path / "clients.jsonl")
        tried.append(command("show", path))
        return first_fault(*(refused(ran, ".json") for ran in tried), *map(clean, tried))

    return run


def _data() -> Path:
    from attack.material import data

    return data()


def _in_shell(text: str) -> Ran:
    """A command as it was printed, typed into a shell."""
    program = f'potluck() {{ "{sys.executable}" -m potluck "$@"; }}; {text}'
    ran = subprocess.run(["bash", "-c", program], capture_output=True, check=False)
    return Ran(ran.returncode, ran.stdout.decode(errors="replace"), ran.stderr.decode(errors="replace"), 0, 0)


def cases() -> list[Case]:
    """Those of this module."""
    written = {name: text for name, text in (STEERING | MARKUP | SHELL).items() if name != "no UTF-8"}
    inside = [text for text in written.values() if "/" not in text]
    found = [
        Case("names: a report", "classes", _classes),
        Case("names: a report", "methods, data sets and folders", partial(_page, inside)),
    ]
    groups: dict[str, tuple[Callable[[str], Callable[[Path], Verdict]], dict[str, str]]] = {
        "names: folders of runs": (_folder, STEERING | SHELL | dict(list(MARKUP.items())[:8])),
        "names: what is not there": (_missing, STEERING | {"markup of rich": "[red]a[bold]"}),
        "names: methods and data sets": (_results, {name: written[name] for name in written if name not in SHELL}),
        "names: damaged runs": (_within, dict(list(STEERING.items())[:6])),
    }
    for group, (make, names) in groups.items():
        found += [Case(group, name, partial(_run, make(text))) for name, text in names.items()]
    return found


def _run(do: Callable[[Path], Verdict], folder: Path) -> Verdict:
    before = Path.cwd()
    try:
        return do(folder)
    finally:
        os.chdir(before)
