"""Which runs a comparison is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from potluck.compare.grid import make_cells, parse_grid, parse_part, parse_seeds
from potluck.config import merge
from potluck.errors import ConfigError


def settings(method: str, assignments: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    return merge({"algorithm": method, "rounds": 3}, dict(assignments))


def test_seeds_outside_methods_inside() -> None:
    cells = make_cells(["standalone", "PFEDES", "pfedes"], [4, 2], {}, settings)
    assert [str(cell) for cell in cells] == ["standalone seed 4", "pfedes seed 4", "standalone seed 2", "pfedes seed 2"]
    assert {cell.config.rounds for cell in cells} == {3}


def test_a_grid_counts_for_methods_that_have_the_setting() -> None:
    grid = parse_grid(["algorithm.mu=0.1,0.3", "epochs=1,2", "partition=iid"])
    cells = make_cells(["standalone", "pfedes"], None, grid, settings)
    assert [cell.name for cell in cells] == [
        "standalone-epochs=1-partition=iid",
        "standalone-epochs=2-partition=iid",
        "pfedes-mu=0.1-epochs=1-partition=iid",
        "pfedes-mu=0.1-epochs=2-partition=iid",
        "pfedes-mu=0.3-epochs=1-partition=iid",
        "pfedes-mu=0.3-epochs=2-partition=iid",
    ]
    last = cells[-1].config
    assert (last.algorithm["mu"], last.epochs, last.partition, last.seed) == (0.3, 2, "iid", 0)


def test_settings_of_one_method() -> None:
    cells = make_cells(["fedprox", "pfedes"], [0], {"pfedes.mu": [0.2, 0.3], "fedprox.epochs": [4]}, settings)
    assert [cell.name for cell in cells] == ["fedprox-epochs=4", "pfedes-mu=0.2", "pfedes-mu=0.3"]
    assert [cell.config.epochs for cell in cells] == [4, 1, 1]


def test_the_same_run_is_there_once() -> None:
    assert len(make_cells(["pfedes"], [0], {"algorithm.mu": [0.1, 0.1]}, settings)) == 1


def test_names_are_fit_for_folders() -> None:
    (cell,) = make_cells(["standalone"], [0], {"data": ["/a b/../c.npz"]}, settings)
    assert cell.name == "standalone-data=_a_b_.._c.npz"
    assert [cell.name for cell in make_cells(["LG-FedAvg", "kt-pfl"], [0], {}, settings)] == ["lg-fedavg", "kt-pfl"]


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"algorithm.muu": [1]}, "unknown setting 'algorithm.muu': did you mean 'algorithm.mu'?"),
        ({"algorithm.pull": [1]}, "unknown setting 'algorithm.pull'"),
        ({"pfeds.mu": [1]}, "unknown setting 'pfeds.mu': did you mean 'pfedes.mu'"),
        ({"epoch": [1]}, "unknown setting 'epoch': did you mean 'epochs'?"),
        ({"seed": [1]}, "seed cannot be set here"),
        ({"algorithm.name": ["fd"]}, "algorithm.name cannot be set here"),
        ({"algorithm.mu": [0.1, 0.9]}, "algorithm.mu: 0.9 is not less than or equal to 0.5"),
        ({"epochs": ["many"]}, "epochs: 'many' is not a valid integer"),
    ],
)
def test_what_is_no_grid(grid: dict[str, list[Any]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_cells(["standalone", "pfedes"], [0], grid, settings)


@pytest.mark.parametrize("text", ["", "mu", "=1", "mu=", "mu=1,,2", "mu=[]"])
def test_a_grid_has_a_key_and_values(text: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form key=value,value"):
        parse_grid([text])
    with pytest.raises(ConfigError, match="is given twice"):
        parse_grid(["a=1", "a=2"])


@pytest.mark.parametrize("text", ["", "a", "1,", "-1", "1.5", "3..1", "0..99999", str(2**63), "1..", "٣"])
def test_what_is_no_seed(text: str) -> None:
    with pytest.raises(ConfigError, match="is no seed"):
        parse_seeds(text)


def test_seeds_are_there_once() -> None:
    assert parse_seeds(" 1, 0..2,1") == [1, 0, 2]


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "1/0", "a/b", "1/2/3", "-1/3"])
def test_what_is_no_part(text: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form 1/3"):
        parse_part(text)
