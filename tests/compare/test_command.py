"""The command as a user meets it: grids that run, stop, go on, grow, and come together from parts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from potluck import algorithms
from potluck.errors import PotluckError
from potluck.run.folder import RunFolder
from results import made
from run import tiny

METHODS = ("compare", "standalone", "fedavg", "--no-report", *tiny.ARGUMENTS)


def numbers(folder: Path) -> dict[str, str]:
    """Everything that the runs and tables of a comparison say, but for times."""
    names = ("rounds.jsonl", "clients.jsonl", "summary.json", "comparison.md", "comparison.tex")
    return {
        str(path.relative_to(folder)): re.sub(r'"seconds": [0-9.e-]+', "", path.read_text())
        for path in sorted(folder.rglob("*"))
        if path.name in names
    }


def test_one_command_one_table(potluck: tiny.Command, tmp_path: Path) -> None:
    ran = potluck(*METHODS, "--seeds", "0,1", "--out", tmp_path / "c", "--jobs", 1)
    assert ran.code == 0
    assert "4 runs: 0 done, 0 begun, 4 to begin; 1 side by side on cpu." in ran.out
    assert "standalone seed 0: begins\nstandalone seed 0: done, 1 of 4 runs" in ran.out
    assert "Test accuracy (%), all clients, last round" in ran.out
    assert "FedAvg" in ran.out
    assert {path.name for path in (tmp_path / "c").iterdir()} == {
        *("standalone", "fedavg", "comparison.md", "comparison.csv", "comparison.tex")
    }
    before = tiny.tree(tmp_path / "c")
    again = potluck(*METHODS, "--seeds", "0,1", "--out", tmp_path / "c", "--protocol", "papers", "--json")
    assert again.code == 0
    assert json.loads(again.out)["protocol"] == "participants_best"
    assert "4 runs: 4 done, 0 begun, 0 to begin" in again.err
    after = tiny.tree(tmp_path / "c")
    assert {name for name in before if before[name] != after[name]} <= {f"comparison.{e}" for e in ("md", "csv", "tex")}


def test_a_page_of_the_same_runs_is_written_or_why_it_is_not(
    potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("compare", "standalone", *tiny.ARGUMENTS, "--out", tmp_path / "c", "--jobs", 1)
    ran = potluck(*command)
    assert ran.code == 0 and (tmp_path / "c/report.html").is_file()
    assert f"Written to {tmp_path / 'c/report.html'}" in ran.out.replace("\n", "")

    def failing(*_: object, **__: object) -> None:
        raise PotluckError("there is no room.")

    monkeypatch.setattr("potluck.report.page.write_report", failing)
    ran = potluck(*command)
    assert ran.code == 0 and "No page with figures: there is no room." in ran.out


def test_a_grid_grows(potluck: tiny.Command, tmp_path: Path) -> None:
    flags = (
        *tiny.ARGUMENTS,
        "--jobs",
        1,
        "--no-report",
        "--out",
        tmp_path / "c",
        "--set",
        "algorithm.extractor_epochs=1",
    )
    assert potluck("compare", "standalone", "pfedes", *flags).code == 0
    ran = potluck("compare", "standalone", "pfedes", *flags, "--grid", "algorithm.mu=0.1,0.5", "--baseline", "pfedes")
    assert ran.code == 0
    assert "3 runs: 2 done, 0 begun, 1 to begin" in ran.out  # mu is 0.1 by default
    assert {path.name for path in (tmp_path / "c").iterdir() if path.is_dir()} == {
        "standalone",
        "pfedes",
        "pfedes-mu=0.5",
    }
    assert "pFedES mu=0.5" in ran.out
    alone = potluck("compare", "--out", tmp_path / "c", "--no-report", "--json")
    assert [each["method"] for each in json.loads(alone.out)["methods"]] == [
        *("standalone", "pfedes mu=0.1", "pfedes mu=0.5")
    ]


def test_all_methods_have_the_samples_of_the_one_that_needs_public_ones(potluck: tiny.Command, tmp_path: Path) -> None:
    flags = (*tiny.ARGUMENTS, "--set", "public=20", "--jobs", 1, "--no-report", "--out", tmp_path / "c", "--json")
    ran = potluck("compare", "standalone", "kt-pfl", *flags)
    assert "20 public samples are set aside under every method" in " ".join(ran.err.split())
    made = json.loads(ran.out)
    assert made["warnings"] == []
    assert [(each["clients"], each["fewest_samples"]) for each in made["methods"]] == [(None, 25), (3, 25)]
    more = json.loads(potluck("compare", "fd", *flags, "--baseline", "standalone").out)
    assert [each["clients"] for each in more["methods"] if each["method"] != "standalone"] == [3, 3]


def test_parts_come_together(potluck: tiny.Command, tmp_path: Path) -> None:
    whole = (*METHODS, "--seeds", "0,1", "--jobs", 1)
    for number in (1, 2, 3):
        assert potluck(*whole, "--part", f"{number}/3", "--out", tmp_path / f"part{number}").code == 0
    assert len(list(tmp_path.glob("part*/*/seed-*"))) == 4
    for number in (1, 2, 3):
        shutil.copytree(tmp_path / f"part{number}", tmp_path / "all", dirs_exist_ok=True)
    together = potluck(*whole, "--out", tmp_path / "all")
    assert "4 runs: 4 done" in together.out
    assert potluck(*whole, "--out", tmp_path / "at once").code == 0
    assert numbers(tmp_path / "all") == numbers(tmp_path / "at once")


def test_the_first_named_comes_first_and_is_the_baseline_if_it_can(potluck: tiny.Command, tmp_path: Path) -> None:
    command = (*METHODS, "--seeds", "0,1", "--jobs", 1, "--json")
    only = potluck(*command, "--part", "2/4", "--out", tmp_path / "c")
    assert only.code == 0
    assert "standalone has no finished run here: compared to the first that has." in only.err
    assert json.loads(only.out)["baseline"] == "fedavg"
    two = potluck(*command, "--part", "3/4", "--out", tmp_path / "c")
    assert [each["seeds"] for each in json.loads(two.out)["methods"]] == [[1], [0]]
    assert json.loads(two.out)["baseline"] == "standalone"
    assert "none to pair their clients over" in json.loads(two.out)["warnings"][0]


def test_without_methods_standalone_comes_first_in_table_and_page(potluck: tiny.Command, tmp_path: Path) -> None:
    for method in ("fd", "standalone"):
        made.run(tmp_path / method / "seed-0", method)
    ran = potluck("compare", "--out", tmp_path, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["baseline"] == "standalone"
    assert "<h1>Standalone, FD</h1>" in (tmp_path / "report.html").read_text()


def test_what_somebody_else_runs_is_left_to_them(potluck: tiny.Command, tmp_path: Path) -> None:
    out = tmp_path / "c"
    assert potluck(*METHODS, "--out", out, "--jobs", 1).code == 0
    (out / "fedavg/seed-0/summary.json").unlink()
    other = RunFolder.open(out / "fedavg/seed-0")
    other.lock()
    before = tiny.tree(out / "fedavg")
    ran = potluck(*METHODS, "--out", out, "--jobs", 1)
    assert ran.code == 0
    assert "fedavg seed 0: another process is running it; it is left to that one." in ran.out
    assert "Not finished, and so left out" in ran.out
    assert tiny.tree(out / "fedavg") == before
    other.close()
    assert "FedAvg" in potluck(*METHODS, "--out", out, "--jobs", 1).out


def test_a_run_that_fails_is_named_and_the_others_compared(potluck: tiny.Command, tmp_path: Path) -> None:
    ran = potluck(*METHODS, "--out", tmp_path / "c", "--jobs", 1, "--grid", "learning_rate=0.01,1e30", "--rounds", 3)
    assert ran.code == 2
    assert "2 of 4 runs failed, for the reasons above: standalone-learning_rate=1e+30 seed 0, " in ran.err
    assert "not finite" in ran.out
    assert "Standalone" in ran.out


def test_an_unforeseen_error_costs_one_run_alone(
    potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(algorithms.find("fedavg"), "aggregate", broken)
    ran = potluck(*METHODS, "--out", tmp_path / "c", "--jobs", 1)
    assert ran.code == 2
    assert "fedavg seed 0: RuntimeError: out of memory" in ran.out
    assert "Traceback" in ran.err
    assert "Standalone" in ran.out and (tmp_path / "c/comparison.md").is_file()


def test_a_setting_for_all_is_no_excuse_for_older_runs(potluck: tiny.Command, tmp_path: Path) -> None:
    flags = (*tiny.ARGUMENTS, "--jobs", 1, "--no-report", "--out", tmp_path / "c")
    assert potluck("compare", "standalone", *flags).code == 0
    ran = potluck("compare", "fedproto", *flags, "--set", "batch_size=7", "--json")
    assert any("batch_size" in text for text in json.loads(ran.out)["warnings"])


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A data set that any process can read."""
    generator = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = generator.integers(0, 100, size=(60, 12, 12), dtype=np.uint8) + (50 * y[:, None, None]).astype(np.uint8)
    np.savez(tmp_path / "pictures.npz", x=x, y=y)
    return tmp_path / "pictures.npz"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")
def test_killed_and_stopped_it_goes_on_to_the_same_numbers(
    potluck: tiny.Command, tmp_path: Path, pictures: Path
) -> None:
    command = (*METHODS, "--data", pictures, "--models", "mlp-8", "--rounds", 60,
               "--set", "checkpoint_every=5", "--seeds", "0,1")  # fmt: skip
    assert potluck(*command, "--out", tmp_path / "whole", "--jobs", 1).code == 0
    out = tmp_path / "parts"

    def under_way(most: int) -> bool:
        return any(path.read_bytes().count(b"\n") > most for path in out.glob("*/*/rounds.jsonl"))

    killed = tiny.start(*command, "--out", out, "--jobs", 2, real=True)
    tiny.wait_for(lambda: under_way(7))
    killed.kill()
    killed.wait()
    assert not list(out.glob("comparison.*"))
    stopped = tiny.start(*command, "--out", out, "--jobs", 2, real=True)
    assert stopped.stdout is not None
    for line in stopped.stdout:
        if "begins" in line:
            break
    stopped.send_signal(signal.SIGINT)
    said = tiny.finish(stopped)
    assert said.code == 130
    assert f"Stopped. Go on with it by the same command; all that is done lies in {out}." in said.out
    assert potluck(*command, "--out", out, "--jobs", 1).code == 0
    assert numbers(out) == numbers(tmp_path / "whole")


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "method": (("fedproto", "fedagv"), "unknown algorithm 'fedagv': did you mean 'fedavg'?"),
    "seeds": (("fd", "--seeds", "0;1"), "--seeds '0;1': '0;1' is no seed"),
    "seed by --set": (
        ("fd", "--set", "seed=3"),
        "seed cannot be set here: name the methods themselves, and give seeds",
    ),
    "another method's": (("fd", "--set", "pfedes.mu=0.3"), "unknown setting 'pfedes.mu'"),
    "grid": (("fd", "--grid", "epochs"), "--grid 'epochs' is not of the form"),
    "key of a grid": (("fd", "--grid", "algorithm.mu=1"), "unknown setting 'algorithm.mu'"),
    "value of a grid": (("pfedes", "--grid", "algorithm.mu=1"), "algorithm.mu: 1 is not less than or equal to 0.5"),
    "key of --set": (("fd", "fml", "--set", "algorithm.mu=1"), "unknown setting 'algorithm.mu'"),
    "name by --set": (("fd", "--set", "algorithm.name=fml"), "algorithm.name cannot be set here: name the methods"),
    "baseline": (("fd", "--baseline", "fml"), "unknown baseline 'fml'. Known: fd."),
    "protocol": (("fd", "--protocol", "best"), "unknown protocol 'best'"),
    "target": (("fd", "--target", "80"), "--target 80.0 is no accuracy"),
    "test": (("fd", "--test", "u"), "unknown test 'u'"),
    "part": (("fd", "--part", "3/2"), "--part '3/2' is not of the form 1/3"),
    "data": (("fd", "--data", "cifar-10", "--data-dir", "."), "cifar-10"),
    "what does not fit": (("fd", "fedavg", "--models", "cnn-1..2"), "FedAvg needs one architecture on every client"),
    "nothing there": ((), "there is no run to compare: no run in runs/compare: it does not exist."),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    arguments, said = BAD[case]
    monkeypatch.chdir(tmp_path)
    ran = potluck("compare", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("potluck: ")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert tiny.tree(tmp_path) == {}


def test_another_run_in_the_way(potluck: tiny.Command, tmp_path: Path) -> None:
    made.run(tmp_path / "c/fd/seed-0", "fd", settings={"epochs": 2})
    before = tiny.tree(tmp_path)
    ran = potluck("compare", "fd", "--out", tmp_path / "c")
    assert ran.code == 2
    assert "is there already, with other settings: clients was 2, now 10; epochs was 2, now 1;" in ran.err
    assert tiny.tree(tmp_path) == before
