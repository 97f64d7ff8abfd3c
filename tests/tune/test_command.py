"""``potluck tune`` as a user meets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from potluck.run.folder import RunFolder
from run import tiny

FLAGS = (*tiny.ARGUMENTS, "--jobs", 1, "--trials", 2, "--set", "algorithm.extractor_epochs=1")


def test_it_ends_with_a_command_that_runs(potluck: tiny.Command, tmp_path: Path) -> None:
    flags = ("standalone", "pfedes", *FLAGS, "--space", "pfedes.mu=0.1..0.3", "--space", "learning_rate=0.01,0.02")
    ran = potluck("tune", *flags, "--out", tmp_path / "t")
    assert ran.code == 0
    assert "Validation accuracy (%), all clients, last round" in ran.out
    command = ran.out.splitlines()[-1].split()
    assert command[:4] == ["potluck", "compare", "standalone", "pfedes"]
    assert any(word.startswith("pfedes.mu=0.") for word in command)
    assert any(word.startswith("standalone.learning_rate=0.0") for word in command)
    before = tiny.tree(tmp_path / "t")
    again = potluck("tune", *flags, "--out", tmp_path / "t", "--json")
    assert tiny.tree(tmp_path / "t") == before
    values = json.loads(again.out)
    assert values["compare"].split() == command
    assert [len(each["trials"]) for each in values["methods"]] == [2, 2]
    assert set(values["methods"][1]["best"]["values"]) == {
        *("algorithm.mu", "algorithm.extractor_learning_rate", "algorithm.extractor_width"),
        *("algorithm.extractor_layers", "learning_rate"),
    }
    compared = potluck(*command[1:], "--seeds", "0", "--jobs", 1, "--out", tmp_path / "c")
    assert compared.code == 0
    assert "differ in more" not in compared.out


def test_it_shows_no_test_accuracy(potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.compare.watching._EVERY", -1.0)
    ran = potluck("tune", "pfedes", *FLAGS, "--out", tmp_path / "t")
    rounds = [line for line in ran.out.splitlines() if ": round " in line]
    assert ran.code == 0 and rounds
    assert all(", validation accuracy " in line for line in rounds)


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "method": (("pfedse",), "unknown algorithm 'pfedse': did you mean 'pfedes'?"),
    "space": (("pfedes", "--space", "algorithm.mu"), "--space 'algorithm.mu' is neither"),
    "key": (("pfedes", "--space", "algorithm.muu=1,2"), "did you mean 'algorithm.mu'?"),
    "seeds": (("pfedes", "--seeds", "x"), "is no seed"),
    "no validation": (
        ("pfedes", "--split", "8:2"),
        "the split 8:2 of fashion-mnist-10k has no validation data to tune",
    ),
    "models": (("fedavg", "--models", "cnn-1..2"), "FedAvg needs one architecture on every client"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    arguments, said = BAD[case]
    monkeypatch.chdir(tmp_path)
    ran = potluck("tune", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert tiny.tree(tmp_path) == {}


def test_without_optuna(potluck: tiny.Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    ran = potluck("tune", "pfedes")
    assert ran.code == 2
    assert ran.err == (
        "potluck: potluck tune needs Optuna, which is not installed. Get it: pip install optuna "
        "(or, in a clone of Potluck, pip install -e '.[tune]')\n"
    )


def test_two_searches_in_one_folder(potluck: tiny.Command, tmp_path: Path) -> None:
    flags = ("pfedes", *FLAGS, "--out", tmp_path / "t")
    assert potluck("tune", *flags).code == 0
    (tmp_path / "t/pfedes/trial-001/seed-0/summary.json").unlink()
    other = RunFolder.open(tmp_path / "t/pfedes/trial-001/seed-0")
    other.lock()
    ran = potluck("tune", *flags)
    other.close()
    assert ran.code == 2
    assert "another process is tuning in" in ran.err
