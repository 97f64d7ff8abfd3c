"""Figures that need nothing but records: what is drawn is what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from potluck.errors import ConfigError
from potluck.metrics.observe import GRADIENT
from potluck.report.figures.accuracy import accuracy_plot, curve
from potluck.report.figures.axes import AXES, byte_ticks, local_epochs, x_axis
from potluck.report.figures.base import NoFigureError
from potluck.report.figures.boxes import box_plot
from potluck.report.figures.differences import differences_plot, paired
from potluck.report.figures.gradient import gradient_plot
from potluck.report.figures.mixing import mixing_plot
from potluck.report.figures.observed import by_client, by_round
from potluck.report.figures.style import drawing
from potluck.report.figures.tradeoff import tradeoff_plot
from potluck.results import Group, groups, read_runs
from report import real
from results import made


def read(*paths: Path) -> list[Group]:
    found, problems = read_runs(paths)
    assert not problems
    return groups(found)


@pytest.fixture
def two(tmp_path: Path) -> list[Group]:
    """Two methods, two seeds each."""
    rising = {0: ((0.2, 0.4), (0.3, 0.5), (0.4, 0.8)), 1: ((0.4, 0.4), (0.5, 0.7), (0.8, 1.0))}
    paths = [made.run(tmp_path / f"a{seed}", "standalone", seed=seed, accuracies=rising[seed]) for seed in (0, 1)]
    flat = ((0.5, 0.5), (0.5, 0.5), (0.5, 0.7))
    paths += [made.run(tmp_path / f"b{seed}", "pfedes", seed=seed, accuracies=flat) for seed in (0, 1)]
    return read(*paths)


def test_a_curve_is_mean_and_deviation_over_seeds(two: list[Group]) -> None:
    course = curve(two[0], AXES["rounds"], everyone=True)
    assert course.x == [1, 2, 3]
    assert course.mean == pytest.approx([35, 50, 75])
    assert course.deviation == pytest.approx([50**0.5, 200**0.5, 450**0.5])


@pytest.mark.parametrize(
    ("axis", "places"),
    [("rounds", [1, 2, 3]), ("bytes", [600, 1200, 1800]), ("flops", [1000, 2000, 3000]), ("seconds", [0.5, 1, 1.5])],
)
def test_what_it_is_drawn_over_adds_up(two: list[Group], axis: str, places: list[float]) -> None:
    assert curve(two[0], AXES[axis], everyone=True).x == pytest.approx(places)


def test_local_epochs_are_all_passes_over_own_data(tmp_path: Path) -> None:
    epochs = {
        "standalone": 3,
        "pfedes": 3 + 5,  # the model's and the extractor's
        "pfedafm": 3 + 3,
        "fedclassavg": 3,
    }
    for method, passes in epochs.items():
        (group,) = read(made.run(tmp_path / method, method, settings={"epochs": 3}))
        assert local_epochs(group.runs[0]) == passes
        assert curve(group, AXES["epochs"], everyone=True).x == [passes, 2 * passes]


def test_every_axis_has_a_version(two: list[Group]) -> None:
    with drawing():
        plot = accuracy_plot(two)
    assert list(plot.versions) == ["rounds", "local epochs", "bytes", "FLOPs", "seconds"]
    assert "all clients" in plot.caption
    assert "all clients and seeds" in plot.caption
    lines = plot.versions["rounds"].axes[0].lines
    assert [list(map(float, line.get_ydata())) for line in lines] == [  # type: ignore[arg-type]
        pytest.approx([35, 50, 75]),
        pytest.approx([50, 50, 60]),
    ]


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_a_band_takes_three_seeds_and_is_of_percentages(tmp_path: Path, seeds: int) -> None:
    rising = [((0.2, 0.4), (0.3, 0.5), (0.9 + 0.05 * seed, 1.0)) for seed in range(seeds)]
    paths = [made.run(tmp_path / str(seed), seed=seed, accuracies=each) for seed, each in enumerate(rising)]
    with drawing():
        plot = accuracy_plot(read(*paths))
    bands = plot.versions["rounds"].axes[0].collections
    assert (len(bands), "standard deviation" in plot.caption) == (int(seeds == 3), seeds == 3)
    for band in bands:
        heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
        assert heights.min() >= 0 and heights.max() <= 100


def test_with_few_evaluations_it_is_of_participants(tmp_path: Path) -> None:
    accuracies = ((0.2, 0.4),) * 4
    found = read(made.run(tmp_path / "run", accuracies=accuracies, everyone=(4,)))
    with drawing():
        plot = accuracy_plot(found)
    assert "took part" in plot.caption
    assert len(plot.versions["rounds"].axes[0].lines[0].get_ydata()) == 4  # type: ignore[arg-type]


def test_without_any_accuracy(tmp_path: Path) -> None:
    found = read(made.run(tmp_path / "run", accuracies=((None, None),) * 2))
    for plot in (accuracy_plot, tradeoff_plot, box_plot):
        with drawing(), pytest.raises(NoFigureError):
            plot(found)


def test_boxes_hold_all_clients_of_all_seeds(two: list[Group]) -> None:
    with drawing():
        plot = box_plot(two)
    axes = plot.versions[""].axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Standalone", "pFedES"]
    medians = [line.get_xdata()[0] for line in axes.lines if line.get_linewidth() == 1.6]  # type: ignore[index]
    assert medians == pytest.approx([80, 60])


def test_differences_are_paired_over_clients_with_seeds_averaged(two: list[Group]) -> None:
    assert paired(*two) == pytest.approx({0: (-10 + 30) / 2, 1: (10 + 30) / 2})
    with drawing():
        plot = differences_plot(two)
    (figure,) = plot.versions.values()
    title = figure.axes[0].get_title("left").splitlines()
    assert title == ["Standalone minus pFedES", "better for 2, worse for 0 of 2, mean +15.00 (dashed)"]
    with drawing(), pytest.raises(NoFigureError, match="only one method"):
        differences_plot(two[:1])


def test_nothing_in_common_gives_no_differences(tmp_path: Path) -> None:
    found = read(made.run(tmp_path / "a", seed=0), made.run(tmp_path / "b", "pfedes", seed=1))
    with drawing(), pytest.raises(NoFigureError, match="a seed, and clients with the same samples, in common"):
        differences_plot(found)
    other = read(made.run(tmp_path / "c"), made.run(tmp_path / "d", settings={"partition": "iid"}))
    with drawing(), pytest.raises(NoFigureError, match="clients with the same samples"):
        differences_plot(other)


def test_what_was_observed_is_drawn() -> None:
    found = read(real.folder())
    by_name = {group.algorithm: group for group in found}
    run = by_name["pfedafm"].runs[0]
    clients = by_client(run, "mixing")
    assert sorted(clients) == [0, 1, 2]
    means = {round: sum(course[round] for course in clients.values()) / 3 for round in (1, 2, 3)}
    assert by_round(run, "mixing") == pytest.approx(means)
    with drawing():
        mixing, gradient = mixing_plot(found), gradient_plot(found)
    assert mixing is not None
    assert len(gradient.versions[""].axes[0].lines) == len(real.METHODS) + 1
    norms = list(by_round(run, GRADIENT).values())
    line: Any = gradient.versions[""].axes[0].lines[[group.algorithm for group in found].index("pfedafm")]
    assert line.get_ydata()[-1] == pytest.approx(sum(norms) / 3)


def test_what_was_not_observed(two: list[Group], tmp_path: Path) -> None:
    assert mixing_plot(two) is None
    with pytest.raises(NoFigureError, match="--set measure=gradient-norm"):
        gradient_plot(two)
    with pytest.raises(NoFigureError, match="not recorded"):
        mixing_plot(read(made.run(tmp_path / "run", "pfedafm")))


def test_axes_by_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'bytes'"):
        x_axis("byte")


@pytest.mark.parametrize("high", [1, 10, 1023, 1024, 5_000, 10**6, 10**9, 3 * 10**12, 10**15, 10**18])
def test_ticks_of_bytes_are_few_and_in_view(high: float) -> None:
    for linear, low in ((True, 0.0), (False, 1.0), (False, -1.0)):
        ticks = byte_ticks(low, high, linear)
        assert len(ticks) <= 7
        assert all(low <= tick <= high for tick in ticks)
