"""Run folders read for analysis: whole ones in numbers, all others named and left out."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from potluck.results import read_runs, reading
from potluck.run import lines
from results import made
from run import tiny


def test_numbers_of_a_made_up_run(tmp_path: Path) -> None:
    rounds = ((0.5, None, 0.1), (0.9, None, 0.3), (0.4, None, 0.2))
    made.run(tmp_path / "r", "pfedes", seed=3, accuracies=rounds, validation=(0.1, 0.2, 0.5), cohort=[0, 1],
             everyone=[1, 3], settings={"algorithm.mu": 0.3, "epochs": 7})  # fmt: skip
    (run,), problems = read_runs([tmp_path / "r"])
    assert problems == []
    assert (run.path, run.algorithm, run.seed, run.finished) == (tmp_path / "r", "pfedes", 3, True)
    assert run.algorithm_settings["mu"] == run.settings["algorithm.mu"] == 0.3
    assert [each.round for each in run.rounds] == [1, 2, 3]
    assert [each.participants for each in run.rounds] == [0.5, 0.9, 0.4]
    assert [each.everyone for each in run.rounds] == [0.3, None, pytest.approx(0.3)]
    assert [each.validation for each in run.rounds] == [0.1, 0.2, 0.5]
    first = run.rounds[0]
    assert (first.bytes_up, first.bytes_down, first.flops, first.server_flops) == (200, 400, 1000, 1200)
    assert (first.loss, first.seconds, first.epochs) == (0.1, 0.5, 7)
    assert run.clients.at(2).keys() == {0, 1}
    last = run.client_accuracies()
    assert (last[0], last[2]) == (0.4, 0.2)
    assert math.isnan(last[1])
    assert math.isnan(run.clients.at(3, "flops")[2])
    assert run.accuracy() == pytest.approx(0.3)
    assert run.round_of("all_best_validation") == 3
    assert (run.accuracy("participants_best"), run.round_of("participants_best")) == (0.9, 2)
    assert run.client_accuracies("participants_best").keys() == {0, 1}


def test_a_real_run_reads_as_its_summary(potluck: tiny.Command, tmp_path: Path) -> None:
    assert potluck("run", "kt-pfl", *tiny.ARGUMENTS, "--set", "public=9", "--out", tmp_path / "run").code == 0
    (run,), problems = read_runs([tmp_path])
    assert problems == []
    assert run.rounds[0].round == 0  # enrolment
    written = json.loads((tmp_path / "run/summary.json").read_text())
    assert run.summary == {key: written[key] for key in run.summary}
    assert list(run.client_accuracies().values()) == written["client_accuracy"]


def test_runs_are_found_below_folders_in_order_and_once(tmp_path: Path) -> None:
    for name in ("b/seed-1", "b/seed-0", "a/seed-0"):
        made.run(tmp_path / "c" / name, {"a": "fd", "b": "fml"}[name[0]], seed=int(name[-1]))
    (tmp_path / "c/.draft").mkdir()
    (tmp_path / "c/notes").mkdir()
    (tmp_path / "c/comparison.md").write_text("")
    runs, problems = read_runs([tmp_path / "c/b/seed-1", tmp_path / "c", str(tmp_path / "c/b")])
    assert problems == []
    assert [str(run.path.relative_to(tmp_path / "c")) for run in runs] == ["b/seed-1", "a/seed-0", "b/seed-0"]


def test_a_run_that_still_runs(tmp_path: Path) -> None:
    path = made.run(tmp_path / "r", finished=False)
    with (path / "clients.jsonl").open("a") as file:
        scores = dict.fromkeys(("accuracy", "balanced_accuracy", "macro_f1", "validation_accuracy"), 0.5)
        file.write(json.dumps({"round": 3, "client": 0, **scores}) + '\n{"round": 3, "cli')
    with (path / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "coh')
    (run,), problems = read_runs([path])
    assert problems == []
    assert not run.finished
    assert [each.round for each in run.rounds] == [1, 2]
    assert run.clients.round.max() == 2


def test_the_same_run_twice_counts_once(tmp_path: Path) -> None:
    made.run(tmp_path / "a", finished=False)
    made.run(tmp_path / "b")
    runs, problems = read_runs([tmp_path])
    assert [run.path.name for run in runs] == ["b"]
    assert len(problems) == 1
    assert f"{tmp_path / 'a'} is the same run as {tmp_path / 'b'}" in problems[0]


def cut(path: Path, keep: int) -> None:
    os.truncate(path, keep)


def instead(path: Path, file: bool) -> None:
    shutil.rmtree(path)
    path.touch() if file else path.mkdir()


def _not_begun(run: Path) -> None:
    cut(run / "rounds.jsonl", 0)
    (run / "summary.json").unlink()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "bad toml": (lambda r: (r / "config.toml").write_text("epochs = "), "config.toml is not valid TOML"),
    "deep tables": (lambda r: (r / "config.toml").write_text(f"{'x.' * 3_000}x = 1"), "it is nested too deeply"),
    "deep toml": (lambda r: (r / "config.toml").write_text("x = " + "[" * 5000), "is not valid TOML"),
    "foreign toml": (
        lambda r: (r / "config.toml").write_text("a = 1"),
        "is no run: its config.toml names no algorithm",
    ),
    "no seed": (lambda r: replace(r / "config.toml", "seed = 0\n", ""), "seed is no whole number"),
    "no records": (lambda r: (r / "rounds.jsonl").unlink(), "is damaged: it has a summary"),
    "all records cut": (lambda r: cut(r / "rounds.jsonl", 20), "is damaged: it has a summary"),
    "nothing written yet": (_not_begun, "has no finished round to show yet"),
    "a line of no record": (lambda r: (r / "rounds.jsonl").write_text("[]\n"), "line 1 of "),
    "a record of something else": (lambda r: (r / "rounds.jsonl").write_text('{"round": 1}\n'), "is damaged"),
    "a word for a number": (lambda r: replace(r / "rounds.jsonl", '"flops": 1000', '"flops": "x"'), "is damaged"),
    "made before the server counted": (
        lambda r: replace(r / "rounds.jsonl", ', "server_flops": 1200', ""),
        "was written by an earlier version, which did not count the server's operations",
    ),
    "rounds cut": (lambda r: cut(r / "rounds.jsonl", 500), "round 2 is in the second alone"),
    "clients cut": (lambda r: cut(r / "clients.jsonl", 500), "of round 2 the second has 0 clients, and config.toml 2"),
    "clients missing": (
        lambda r: (r / "clients.jsonl").unlink(),
        "of round 1 the second has 0 clients, and config.toml 2",
    ),
    "a line of clients": (lambda r: replace(r / "clients.jsonl", "\n", "x\n"), "line 1 of "),
    "a client's number": (lambda r: replace(r / "clients.jsonl", '"client": 0', '"client": "x"'), "is damaged"),
    "summary": (lambda r: (r / "summary.json").write_text("{"), "summary.json is damaged"),
    "a deep summary": (lambda r: (r / "summary.json").write_text("[" * 100_000), "it is nested too deeply"),
    "clients that never end": (lambda r: _pipe(r / "clients.jsonl"), "clients.jsonl is a pipe, and "),
    "no folder": (shutil.rmtree, "it does not exist"),
    "an empty folder": (lambda r: instead(r, file=False), "no folder in it has a config.toml"),
    "a file": (lambda r: instead(r, file=True), "it is a file"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_is_damaged_is_named_and_the_rest_given(tmp_path: Path, case: str) -> None:
    damage, said = DAMAGE[case]
    bad, good = made.run(tmp_path / "bad"), made.run(tmp_path / "good", seed=1)
    damage(bad)
    runs, problems = read_runs([bad, good])
    assert [run.path for run in runs] == [good]
    assert len(problems) == 1
    assert said in problems[0]
    assert str(bad) in problems[0]


def test_records_without_end_are_not_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise AssertionError(f"reads {path} at once")

    path = made.run(tmp_path / "run") / "clients.jsonl"
    monkeypatch.setattr(reading, "read_bytes", refuse)
    monkeypatch.setattr(lines, "_LONGEST", 1 << 16)
    with path.open("ab") as file:
        file.truncate(1 << 34)  # which takes no room on the disk
    runs, problems = read_runs([tmp_path])
    assert not runs
    assert problems == [f"line 5 of {path} is damaged: it has more than 65,536 bytes."]
