"""What reads runs takes the same runs: whole ones, and none whose files contradict each other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from potluck.errors import RunError
from potluck.experiment import open_run
from potluck.results import read_run, read_runs
from results import made
from run import tiny

Damage = Callable[[Path], object]


def in_summary(**values: Any) -> Damage:
    def damage(run: Path) -> None:
        path = run / "summary.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return damage


def in_line(name: str, number: int, change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(run: Path) -> None:
        records = [json.loads(line) for line in (run / name).read_text().splitlines()]
        change(records[number])
        (run / name).write_text("".join(json.dumps(record) + "\n" for record in records))

    return damage


def in_lines(name: str, change: Callable[[list[str]], list[str]]) -> Damage:
    return lambda run: (run / name).write_text("".join(change((run / name).read_text().splitlines(keepends=True))))


def in_config(old: str, new: str) -> Damage:
    def damage(run: Path) -> None:
        text = (run / "config.toml").read_text()
        assert old in text
        (run / "config.toml").write_text(text.replace(old, new))

    return damage


def linked(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).rename(run / "outside")
        (run / name).symlink_to("outside")

    return damage


def piped(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return damage


def cases() -> Iterator[tuple[str, str, Damage]]:
    yield "text as accuracy", "summary.json", in_summary(all_last="0.7")
    yield "no number as accuracy", "summary.json", in_summary(all_last=float("nan"))
    yield "another accuracy", "summary.json", in_summary(all_last=0.99)
    yield "text of a client", "summary.json", in_summary(client_accuracy=["a", "b"])
    yield "text as algorithm", "summary.json", in_summary(algorithm="standalone")
    yield "no flops", "summary.json", in_summary(flops=None)
    yield "true for a number", "summary.json", in_summary(rounds=True)
    yield "nested", "summary.json", lambda run: (run / "summary.json").write_text("[" * 100_000)
    yield "linked summary", "summary.json", linked("summary.json")
    yield "accuracy 7", "rounds.jsonl", in_line("rounds.jsonl", 0, lambda record: record["all"].update(accuracy=7))
    yield "another mean", "rounds.jsonl", in_line("rounds.jsonl", 0, lambda record: record["all"].update(accuracy=0.5))
    yield "negative bytes", "rounds.jsonl", in_line("rounds.jsonl", 0, lambda record: record.update(bytes_up=-1))
    yield "other bytes", "rounds.jsonl", in_line("rounds.jsonl", 0, lambda record: record.update(bytes_up=1))
    yield "a foreign cohort", "rounds.jsonl", in_line("rounds.jsonl", 0, lambda record: record.update(cohort=[7]))
    yield "rounds doubled", "rounds.jsonl", in_lines("rounds.jsonl", lambda lines: lines * 2)
    yield "rounds reversed", "rounds.jsonl", in_lines("rounds.jsonl", lambda lines: lines[::-1])
    yield "piped rounds", "rounds.jsonl", piped("rounds.jsonl")
    yield "another client", "clients.jsonl", in_line("clients.jsonl", -1, lambda record: record.update(client=99))
    yield "another number", "clients.jsonl", in_line("clients.jsonl", 0, lambda record: record.update(accuracy=0.999))
    yield "not trained", "clients.jsonl", in_line("clients.jsonl", 0, lambda record: record.pop("flops"))
    yield "clients doubled", "clients.jsonl", in_lines("clients.jsonl", lambda lines: lines * 2)
    yield "linked clients", "clients.jsonl", linked("clients.jsonl")
    yield "piped settings", "config.toml", piped("config.toml")
    yield "fewer rounds", "config.toml", in_config("rounds = 2", "rounds = 1")
    yield "any number of clients", "config.toml", in_config("clients = 2", "clients = 1000000000000")
    yield "text of digits", "config.toml", in_config("clients = 2", 'clients = "2"')
    yield "another seed", "config.toml", in_config("seed = 0", "seed = 1")
    yield "more digits than can be", "config.toml", in_config("seed = 0", f"seed = {'1' * 5000}")
    yield "no fraction", "config.toml", in_config("fraction = 1.0", 'fraction = "half"')


CASES = {name: (file, damage) for name, file, damage in cases()}


@pytest.mark.parametrize("name", CASES)
def test_all_refuse_what_is_damaged_and_name_the_file(potluck: tiny.Command, tmp_path: Path, name: str) -> None:
    file, damage = CASES[name]
    run = made.run(tmp_path / "run", validation=(0.5, 0.5))
    damage(run)
    for arguments in (("show", run), ("show", run, "--json")):
        ran = potluck(*arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert file in ran.err
    runs, problems = read_runs([run])
    assert not runs
    assert file in problems[0]
    with pytest.raises(RunError, match=file.replace(".", r"\.")):
        open_run(run)


def test_the_summary_and_its_protocols_are_those_of_the_records(potluck: tiny.Command, tmp_path: Path) -> None:
    # Also of rounds in which some clients were not asked, and of clients without samples.
    run = made.run(tmp_path / "run", accuracies=((0.5, None, 0.1),) * 4, cohort=[0, 1], everyone=[2, 4])
    shown = potluck("show", run, "--json")
    assert json.loads(shown.out) == json.loads((run / "summary.json").read_text())
    assert read_run(run).recorded == read_run(run).summary
    (run / "summary.json").unlink()
    assert potluck("show", run, "--json").out == shown.out
    assert not read_run(run).finished


def test_a_method_that_is_not_known_here_is_shown(potluck: tiny.Command, tmp_path: Path) -> None:
    run = made.renamed(made.run(tmp_path / "run"), "my-[red]own")
    assert "my-[red]own" in potluck("show", run).out
