"""Runs that stop early, by validation accuracy alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import potluck
from potluck.errors import ConfigError
from potluck.metrics.early_stop import Standing, standing
from potluck.run.record import RunRecord
from run import tiny
from test_python_runs import clients

# The learning rate is too small to change any prediction: the first evaluation is the best.
ARGUMENTS = (
    *("standalone", *tiny.ARGUMENTS, "--rounds", 9, "--set", "evaluate_every=2", "--set", "checkpoint_every=3"),
    *("--set", "early_stop=2", "--set", "learning_rate=1e-12"),
)


def _records(*accuracies: float | None) -> list[dict[str, Any]]:
    return [
        {"round": number, "all": None if value is None else {"validation_accuracy": value}}
        for number, value in enumerate(accuracies, 1)
    ]


def test_where_validation_stands() -> None:
    assert standing([]) == Standing(None, 0)
    assert standing(_records(None, 0.5, None, 0.6)) == Standing(4, 0)
    # An equal accuracy is no better one; rounds in which not all were evaluated do not count.
    assert standing(_records(0.6, None, 0.6, None, 0.5)) == Standing(1, 2)
    # All were evaluated, and nobody has validation samples.
    assert standing([{"round": 1, "all": {"validation_accuracy": None}}]) == Standing(None, 0)


def test_a_run_stops(potluck: tiny.Command, tmp_path: Path) -> None:
    ran = potluck("run", *ARGUMENTS, "--out", tmp_path / "run")
    assert ran.code == 0
    assert "Stopped early after round 6 of 9: validation accuracy was best in round 2" in " ".join(ran.out.split())
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["rounds"] == summary["all_last_round"] == 6
    assert summary["early_stop"] == {"patience": 2, "stopped": True, "best_round": 2}
    assert potluck("resume", tmp_path / "run").code == 2  # it is finished
    assert max(path.name for path in (tmp_path / "run/checkpoint").iterdir()) == "round-00006"


@pytest.mark.parametrize("moment", [5, 6])
def test_a_run_that_is_stopped_before_ends_the_same(
    potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    assert potluck("run", *ARGUMENTS, "--out", tmp_path / "whole").code == 0
    commit = RunRecord.commit_round

    def commit_and_stop(record: RunRecord, round: dict[str, int], clients: list[dict[str, Any]]) -> None:
        commit(record, round, clients)
        if round["round"] == moment:
            tiny.interrupt()

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "commit_round", commit_and_stop)
        code = potluck("run", *ARGUMENTS, "--out", tmp_path / "run").code
    if moment == 5:
        assert code == 130
        assert potluck("resume", tmp_path / "run").code == 0
    for name in ("summary.json", "clients.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_killed_between_its_last_round_and_its_summary(potluck: tiny.Command, tmp_path: Path) -> None:
    assert potluck("run", *ARGUMENTS, "--out", tmp_path / "run").code == 0
    summary = (tmp_path / "run/summary.json").read_bytes()
    (tmp_path / "run/summary.json").unlink()
    assert potluck("resume", tmp_path / "run").code == 0
    assert (tmp_path / "run/summary.json").read_bytes() == summary
    assert len(tiny.rounds(tmp_path / "run")) == 6


def test_a_run_that_gets_better_goes_on() -> None:
    with_validation = [
        potluck.Client(
            client.architecture, (client.train.x, client.train.y), validation=(client.train.x, client.train.y)
        )
        for client in clients()
    ]
    federation = potluck.Federation("standalone", with_validation, device="cpu", early_stop=100, evaluate_every=1)
    assert federation.run(3, watch=potluck.Callback()).summary["rounds"] == 3
    assert federation.summary["early_stop"]["stopped"] is False


def test_without_validation_data() -> None:
    with pytest.raises(ConfigError, match="no client has validation samples"):
        potluck.Federation("standalone", clients(), early_stop=3)


@pytest.mark.parametrize("patience", ["0", "-1", "soon", "true"])
def test_patience_that_is_none(potluck: tiny.Command, tmp_path: Path, patience: str) -> None:
    said = potluck("run", "standalone", "--set", f"early_stop={patience}", "--out", tmp_path / "run")
    assert said.code == 2
    assert "early_stop" in said.err
    assert not (tmp_path / "run").exists()
