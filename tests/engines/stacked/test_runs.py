"""Whole runs: resumed, and from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from potluck.errors import InterruptedRunError
from run import tiny

from .small import federation, held, run


def test_a_run_that_was_stopped_ends_in_the_same_bits(tmp_path: Path) -> None:
    whole = federation("fedkd", "stacked", out=tmp_path / "whole")
    run(whole, 4)
    stopped = federation("fedkd", "stacked", out=tmp_path / "parts")
    with pytest.raises(InterruptedRunError, match="stopped after round 2"):
        stopped.run(4, watch=lambda event: stopped.stop() if event.get("round") == 2 else None)
    again = federation("fedkd", "stacked", out=tmp_path / "parts")
    assert again.restore() == []
    run(again, 4)
    assert all(torch.equal(tensor, again.server[name]) for name, tensor in whole.server.items())
    for number, state in held(whole).items():
        assert all(torch.equal(tensor, held(again)[number][path]) for path, tensor in state.items())


def test_the_announcement_names_the_engine(potluck: tiny.Command, tmp_path: Path) -> None:
    result = potluck("run", "standalone", *tiny.ARGUMENTS, "--engine", "stacked", "--out", tmp_path / "run")
    assert result.code == 0
    assert "stacked on cpu" in result.out and "notes" not in result.out


def test_the_announcement_says_what_runs_on_loop(
    potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potluck.models.cnn.CNN.forward", _branching)
    result = potluck("run", "standalone", *tiny.ARGUMENTS, "--engine", "stacked", "--out", tmp_path / "run")
    assert result.code == 0
    assert "clients with the networks of client 0 run on the loop engine" in " ".join(result.out.split())


def _branching(net: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten(1)[:, :32]
    hidden: torch.Tensor = net.get_submodule("fc2")(flat.repeat(1, 16)[:, :500])
    logits: torch.Tensor = net.get_submodule("fc3")(hidden)
    return logits if float(logits.detach().sum()) > 0 else logits * 1
