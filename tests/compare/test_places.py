"""Where the runs of a comparison lie, also when the grid changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compare.test_grid import settings
from potluck.compare.grid import make_cells
from potluck.compare.places import place
from potluck.errors import RunError
from results import made


def cells(*methods: str, seeds: tuple[int, ...] = (0,), **grid: list[Any]) -> Any:
    keys = {("algorithm.mu" if key == "mu" else key): values for key, values in grid.items()}
    return make_cells(methods, seeds, {"clients": [2], "rounds": [2], **keys}, settings)


def test_new_ones_by_name_and_seed(tmp_path: Path) -> None:
    found = place(cells("fd", "pfedes", seeds=(0, 3)), tmp_path / "c")
    names = [str(each.path.relative_to(tmp_path / "c")) for each in found]
    suffix = "-clients=2-rounds=2"
    assert names == [f"{name}{suffix}/seed-{seed}" for seed in (0, 3) for name in ("fd", "pfedes")]
    assert not any(each.begun or each.finished for each in found)


def test_what_is_there_is_found_under_any_name(tmp_path: Path) -> None:
    made.run(tmp_path / "old name", "pfedes")
    made.run(tmp_path / "x/y", "pfedes", finished=False, settings={"algorithm.mu": 0.3, "checkpoint_every": 7})
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/config.toml").write_text("a = ")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/config.toml").write_text(f"{'a.' * 3_000}a = 1")
    (tmp_path / "large").mkdir()
    (tmp_path / "large/config.toml").write_text(f"a = [[0x{'f' * 5000}]]")
    first, second, third = place(cells("pfedes", mu=[0.1, 0.3, 0.5]), tmp_path)
    assert (first.path, first.finished) == (tmp_path / "old name", True)
    assert (second.path, second.begun, second.finished) == (tmp_path / "x/y", True, False)
    assert not third.begun


def test_another_run_in_the_place(tmp_path: Path) -> None:
    (cell,) = cells("pfedes")
    made.run(tmp_path / cell.name / "seed-0", "pfedes", settings={"epochs": 4})
    with pytest.raises(RunError, match=r"with other settings: epochs was 4, now 1. Give another --out"):
        place([cell], tmp_path)


def test_something_else_in_the_place(tmp_path: Path) -> None:
    (cell,) = cells("pfedes")
    (tmp_path / cell.name / "seed-0").mkdir(parents=True)
    with pytest.raises(RunError, match="is there already, and is no run"):
        place([cell], tmp_path)
    (tmp_path / cell.name / "seed-0/config.toml").write_text("a = 1\n")
    with pytest.raises(RunError, match=r"is no run: its config\.toml names no algorithm"):
        place([cell], tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="is a file, and no folder for runs"):
        place([cell], tmp_path / "file")


def test_names_that_become_the_same(tmp_path: Path) -> None:
    found = place(cells("fd", data=["a b", "a/b"]), tmp_path)
    assert len({each.path for each in found}) == 2
