"""Figures that need data sets and the networks of clients."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from potluck.data import sources
from potluck.report.figures.attribution import attribution_plot, conductance, ranks
from potluck.report.figures.base import NoFigureError
from potluck.report.figures.embedding import embedding_plot
from potluck.report.figures.enhanced import enhanced_plot
from potluck.report.figures.opened import Opened
from potluck.report.figures.partition import partition_plot
from potluck.report.figures.style import drawing
from potluck.results import Group, groups, read_runs
from report import real
from results import made
from run import tiny


@pytest.fixture(autouse=True)
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)


@pytest.fixture
def found() -> list[Group]:
    return groups(read_runs([real.folder()])[0])


def test_the_partition_is_that_of_the_run(found: list[Group]) -> None:
    opened = Opened()
    with drawing():
        plot = partition_plot(found, opened)
    shown = plot.versions[""].axes[0].images[0].get_array()
    assert shown is not None
    clients = opened.federation(found[0].runs[0]).clients
    expected = np.stack([np.bincount(client.train.y.numpy(), minlength=10) for client in clients], 1)
    assert (np.nan_to_num(np.ma.filled(shown, 0)) == expected).all()


def test_representations_in_the_plane(found: list[Group]) -> None:
    with drawing():
        plot = embedding_plot(found, Opened())
    assert list(plot.versions) == [group.title for group in found]
    drawn = plot.versions[found[0].title].axes[0].collections
    clients = Opened().federation(found[0].runs[0]).clients
    assert len(drawn) == len(clients)  # a shape for each
    assert sum(len(np.asarray(each.get_offsets())) for each in drawn) == sum(len(client.test) for client in clients)


def test_enhanced_images_are_the_servers_extractors(found: list[Group]) -> None:
    with drawing():
        plot = enhanced_plot(found, Opened())
        assert enhanced_plot([group for group in found if group.algorithm != "pfedes"], Opened()) is None
    assert plot is not None
    axes = plot.versions[""].axes
    assert len(axes) == 10
    assert [axes[0].get_ylabel(), axes[5].get_ylabel()] == ["original", "enhanced"]


def test_conductance_is_the_integral_it_stands_for() -> None:
    torch.manual_seed(0)
    body, head = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh()).double(), nn.Linear(5, 3).double()
    x = torch.randn(1, 6, dtype=torch.float64)
    steps, total = 2000, torch.zeros(5, dtype=torch.float64)
    for step in range(steps):
        before, after = (body(x * share / steps)[0] for share in (step, step + 1))
        units = body(x * (step + 0.5) / steps).detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(head(units)[0, 2], units)
        total += slope[0] * (after - before).detach()
    assert torch.allclose(conductance(body, head, x, 2), total, atol=1e-9)


def test_attribution_ranks(found: list[Group]) -> None:
    opened = Opened()
    with drawing():
        plot = attribution_plot(found, opened)
    assert plot is not None
    assert next(iter(plot.versions)) == "FedClassAvg"
    of = ranks(opened.federation(next(group for group in found if group.algorithm == "fedclassavg").runs[0]))
    units = len(of.values)
    assert (np.sort(of.values, 0) == np.arange(units)[:, None]).all()
    assert attribution_plot([group for group in found if group.algorithm != "fedclassavg"], opened) is None


def test_without_networks_or_data(tmp_path: Path, found: list[Group]) -> None:
    bare = groups(read_runs([made.run(tmp_path / "bare", "pfedes")])[0])
    with drawing(), pytest.raises(NoFigureError, match="bare has no networks"):
        embedding_plot(bare, Opened())
    lost = groups(read_runs([made.run(tmp_path / "lost", settings={"data": str(tmp_path / "gone.npz")})])[0])
    with drawing(), pytest.raises(NoFigureError, match=r"gone\.npz"):
        partition_plot(lost, Opened())


def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    run = shutil.copytree(real.folder() / "pfedes", tmp_path / "run")
    for path in run.glob("checkpoint/*/manifest.json"):
        path.write_text("nothing")
    with drawing(), pytest.raises(NoFigureError, match="The checkpoint of round 3 is not usable"):
        enhanced_plot(groups(read_runs([run])[0]), Opened())
