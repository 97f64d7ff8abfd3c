"""Names may hold anything: no message or table obeys them, and what is advised can be copied."""

from __future__ import annotations

import io
import os
import subprocess
import unicodedata
from pathlib import Path

import pytest
from rich.table import Table

from potluck.errors import DataError, PotluckError, RunError
from potluck.messages import command, visible
from potluck.report.console import SafeConsole
from results import made
from run import tiny

HOSTILE = ("a\x1b]0;owned\x07", "a\nb", "a\rb", "\x9b31mred", "a\u202eb", "a\u2028b", "a\x7fb", "\udcff")


def test_only_what_cannot_be_seen_is_written_out() -> None:
    for text in ("", "Übung 3", "日本語", "a\u00a0b", "👩‍👩‍👧", "[red]\\:fire:"):
        assert visible(text) == text
    assert visible("a\x1b[31m\x00\x85\u202e\u2028") == r"a\x1b[31m\x00\x85\u202e\u2028"
    assert visible("a\nb\r", keep="\n") == "a\nb\\r"
    for text in HOSTILE:
        assert visible(text).isprintable()
        assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("name", [*HOSTILE, "-x", "--out", "a b", "it's", "$HOME", "`id`", "a\\b\x01", "ü\x1b", "*"])
def test_a_command_is_taken_by_a_shell_as_it_was_meant(name: str) -> None:
    text = command("show", Path(name))
    assert text.isprintable()
    shell = ["bash", "-c", f'potluck() {{ printf "%s\\0" "$@"; }}; {text}']
    given = subprocess.run(shell, capture_output=True, check=True).stdout.split(b"\0")
    assert given[0] == b"show"
    assert os.path.normpath(given[1]) == os.fsencode(name)
    assert not given[1].startswith(b"-")


def test_a_console_obeys_no_name() -> None:
    file = io.StringIO()
    console = SafeConsole(file=file, width=40, force_terminal=True)
    table = Table("\x1b]0;a\x07")
    for name in HOSTILE:
        table.add_row(name)
    console.print(table, "\x1b[5m :fire: [bold]bold[/bold]")
    assert "\x1b[1mbold" in file.getvalue()
    assert ":fire:" in file.getvalue()
    assert r"\x1b]0;owned\x07" in file.getvalue()
    plain = file.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert not [letter for letter in plain if unicodedata.category(letter) in ("Cc", "Cf") and letter != "\n"]
    # What is written out has its place in the table.
    assert len({len(line) for line in plain.splitlines() if line.startswith(("│", "├", "┃"))}) == 1


def test_lines_of_an_error() -> None:
    assert str(RunError("a", "b")) == "a\nb"
    assert str(PotluckError()) == ""
    assert str(DataError("a\nb")) == "a\nb"


@pytest.mark.parametrize("name", HOSTILE)
def test_messages_with_hostile_names(potluck: tiny.Command, tmp_path: Path, name: str) -> None:
    said = [
        potluck("show", tmp_path / name),
        potluck("resume", tmp_path / name),
        potluck("run", "pfedes", *tiny.ARGUMENTS, "--data", tmp_path / f"{name}.npz", "--out", tmp_path / "no"),
        potluck("data", "check", "mnist", "--data-dir", tmp_path / name),
    ]
    run = made.run(tmp_path / name / "run")
    whole = [potluck("show", run), potluck("show", run, "--json"), potluck("resume", run)]
    for ran in (*said, *whole):
        assert all(letter.isprintable() or letter == "\n" for letter in ran.out + ran.err)
    assert [ran.code for ran in (*said, *whole)] == [2, 2, 2, 2, 0, 0, 2]
    assert all(ran.err.count("\n") == 1 for ran in (*said, whole[-1]))


def test_the_folder_that_was_asked_for_is_advised(
    potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = potluck("run", "standalone", *tiny.ARGUMENTS, "--out", "-x")
    assert "See every client: potluck show ./-x\n" in ran.out
    assert potluck("show", "./-x").code == 0
    again = potluck("run", "standalone", *tiny.ARGUMENTS, "--out", "-x").err
    assert again.endswith("Give another --out, or see the run in it, which is finished: potluck show ./-x\n")
    (tmp_path / "-x/summary.json").unlink()
    again = potluck("run", "standalone", *tiny.ARGUMENTS, "--out", "-x").err
    assert again.endswith("Give another --out, or go on with it: potluck resume ./-x\n")
