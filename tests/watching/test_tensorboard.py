"""What TensorBoard is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from potluck.errors import ConfigError
from potluck.watching.tensorboard import FOLDER, TensorBoard
from results import made
from run import tiny


def test_a_run_is_written_as_it_goes(potluck: tiny.Command, tmp_path: Path) -> None:
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run, plain = tmp_path / "run", tmp_path / "plain"
    arguments = ("pfedafm", *tiny.ARGUMENTS, "--rounds", 2, "--set", "evaluate_every=1")
    assert potluck("run", *arguments, "--out", run, "--tensorboard").code == 0
    assert potluck("run", *arguments, "--out", plain).code == 0
    events = loading.EventAccumulator(str(run / FOLDER))
    events.Reload()
    recorded = [record["all"]["accuracy"] for record in tiny.rounds(run)]
    assert [event.value for event in events.Scalars("all clients/accuracy")] == pytest.approx(recorded)
    assert [event.step for event in events.Scalars("costs/bytes up")] == [1, 2]
    assert [event.step for event in events.Scalars("observed/mixing")] == [1, 2]
    assert events.Histograms("all clients/accuracy of each")[-1].step == 2
    # It is no setting, and changes no number.
    assert (run / "config.toml").read_bytes() == (plain / "config.toml").read_bytes()
    assert (run / "summary.json").read_bytes() == (plain / "summary.json").read_bytes()


def test_it_is_not_written_out_of_the_folder(potluck: tiny.Command, tmp_path: Path) -> None:
    run = made.run(tmp_path / "run", finished=False)
    (tmp_path / "outside").mkdir()
    (run / FOLDER).symlink_to(tmp_path / "outside")
    before = tiny.tree(tmp_path)
    ran = potluck("resume", run, "--tensorboard")
    assert (ran.code, ran.err) == (2, f"potluck: {run / FOLDER} is a link, and has to be a folder: remove it.\n")
    assert tiny.tree(tmp_path) == before


def test_without_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[track\]'"):
        TensorBoard(tmp_path)
