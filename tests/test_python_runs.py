"""Runs made from Python, with a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import potluck
from potluck.errors import ConfigError, RunError
from potluck.experiment import open_run, read_config
from potluck.federation import GIVEN
from potluck.results import read_run
from potluck.run.folder import RunFolder


def clients(count: int = 3, labels: int = 2) -> list[potluck.Client]:
    made = []
    for number in range(count):
        generator = torch.Generator().manual_seed(number)
        x = torch.randn(6, 4, generator=generator)
        y = torch.arange(6) % labels
        with potluck.draws.initial_weights(number % 2):
            net = nn.Sequential(nn.Linear(4, 3 + number % 2), nn.Tanh(), nn.Linear(3 + number % 2, 3))
        made.append(potluck.Client(model=net, train=(x, y), test=(x, y)))
    return made


def quiet(event: dict[str, Any]) -> None:
    """Watch nothing."""


def federation(out: Path, labels: int = 2) -> potluck.Federation:
    return potluck.Federation("pfedes", clients(labels=labels), out=out, device="cpu", checkpoint_every=1)


def test_the_summary_says_nothing_that_was_not_asked(tmp_path: Path) -> None:
    made = federation(tmp_path / "run")
    made.run(2, watch=quiet)
    written = json.loads((tmp_path / "run/summary.json").read_text())
    assert written == made.summary
    assert written["data"] == GIVEN
    assert not {"partition", "models"} & written.keys()
    assert read_run(tmp_path / "run").finished


def test_more_rounds_make_a_finished_run_go_on(tmp_path: Path) -> None:
    made = federation(tmp_path / "run")
    made.run(1, watch=quiet)
    made.run(3, watch=quiet)
    assert json.loads((tmp_path / "run/summary.json").read_text())["rounds"] == 3


def test_only_python_can_go_on_with_it(tmp_path: Path) -> None:
    federation(tmp_path / "run").run(2, watch=quiet)
    (tmp_path / "run/summary.json").unlink()
    with pytest.raises(ConfigError, match="was made from Python with data of its own"):
        read_config(RunFolder.open(tmp_path / "run"))
    with pytest.raises(ConfigError, match="was made from Python"):
        open_run(tmp_path / "run")
    made = federation(tmp_path / "run")
    assert made.restore() == []
    assert made.run(3, watch=quiet).summary["rounds"] == 3


@pytest.mark.parametrize("method", ["fd", "fedkd"])
def test_a_federation_that_failed_goes_back_to_its_checkpoint(method: str, tmp_path: Path) -> None:
    """What its server holds by then has other names and shapes than an older checkpoint."""

    def made(out: Path | None) -> potluck.Federation:
        own: dict[str, Any] = {"small_model": "mlp-16"} if method == "fedkd" else {}
        return potluck.Federation(method, clients(), out=out, device="cpu", engine="loop", checkpoint_every=2, **own)

    def fails(event: dict[str, Any]) -> None:
        if event["event"] == "begin" and event["number"] == 4:
            raise OSError("no space left")

    broken = made(tmp_path / "run")
    with pytest.raises(OSError, match="no space left"):
        broken.run(5, watch=fails)
    assert broken.restore() == []
    assert broken.rounds == 2
    found, expected = broken.run(5, watch=quiet), made(None).run(5, watch=quiet)
    assert [{**round, "seconds": 0} for round in found.rounds] == [{**r, "seconds": 0} for r in expected.rounds]


def test_other_data_are_noticed(tmp_path: Path) -> None:
    federation(tmp_path / "run").run(1, watch=quiet)
    (tmp_path / "run/summary.json").unlink()
    with pytest.raises(RunError, match="the training labels of clients 0, 1, 2"):
        federation(tmp_path / "run", labels=3).restore()


def test_another_number_of_threads_is_said(tmp_path: Path) -> None:
    federation(tmp_path / "run").run(1, watch=quiet)
    (tmp_path / "run/summary.json").unlink()
    path = tmp_path / "run/environment.json"
    before = json.loads(path.read_text())
    path.write_text(json.dumps({**before, "cpu_threads": before["cpu_threads"] + 7}))
    (problem,) = federation(tmp_path / "run").restore()
    assert f"cpu_threads was {before['cpu_threads'] + 7}, now {before['cpu_threads']}" in problem


def test_the_same_client_twice_is_refused() -> None:
    one, two, _ = clients()
    with pytest.raises(ConfigError, match="given twice"):
        potluck.Federation("standalone", [one, two, one])
