"""Who holds what, where one method of a comparison sets public samples aside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compare.test_grid import settings
from potluck.compare.grid import Cell, make_cells
from potluck.compare.sharing import samples, share_alike, unequal
from potluck.results import groups, read_runs
from results import made


def cells(*methods: str, **more: object) -> list[Cell]:
    grid: dict[str, list[Any]] = {"clients": [2], "rounds": [2]}
    grid |= {key.replace("__", "."): [value] for key, value in more.items()}
    return make_cells(methods, [0, 1], grid, settings)


def asked(found: list[Cell]) -> dict[str, tuple[str | None, int]]:
    return {cell.config.algorithm["name"]: (cell.config.set_aside, cell.config.public) for cell in found}


def test_without_need_nothing_changes(tmp_path: Path) -> None:
    given = cells("standalone", "fd")
    assert share_alike(given, tmp_path) == (given, "")
    alone = cells("kt-pfl")
    assert share_alike(alone, tmp_path) == (alone, "")


def test_one_method_that_needs_them_decides_for_all(tmp_path: Path) -> None:
    given = cells("standalone", "kt-pfl", "fd")
    found, said = share_alike(given, tmp_path / "new")
    assert asked(found) == dict.fromkeys(("standalone", "kt-pfl", "fd"), ("public", 1000))
    assert [cell.name for cell in found] == [cell.name for cell in given]
    assert said == "1,000 public samples are set aside under every method, so that all train on the same samples."
    assert share_alike(found, tmp_path)[0] == found
    found, said = share_alike(cells("standalone", "kt-pfl", **{"kt-pfl__public": 300}), tmp_path)
    assert asked(found) == dict.fromkeys(("standalone", "kt-pfl"), ("public", 300))
    assert said.startswith("300 public")


@pytest.mark.parametrize("there", ["kt-pfl", "standalone"])
def test_what_is_there_decides_for_what_is_added(tmp_path: Path, there: str) -> None:
    made.run(
        tmp_path / there, there, settings={"public": 300, **({} if there == "kt-pfl" else {"set_aside": "public"})}
    )
    found, said = share_alike(cells("fd"), tmp_path)
    assert asked(found) == {"fd": ("public", 300)} and said


@pytest.mark.parametrize("public", ['"x"', "[1]", "true", None])
def test_damaged_configurations_have_no_say(tmp_path: Path, public: str | None) -> None:
    (tmp_path / "a").mkdir()
    said = "" if public is None else f"public = {public}\n"
    (tmp_path / "a/config.toml").write_text(f'set_aside = "public"\n{said}[algorithm]\nname = "unheard of"\n')
    given = cells("standalone")
    assert share_alike(given, tmp_path) == (given, "")


def test_runs_on_all_samples_are_not_made_again(tmp_path: Path) -> None:
    made.run(tmp_path / "a", "standalone")
    given = cells("standalone", "kt-pfl")
    found, said = share_alike(given, tmp_path)
    assert found == given
    assert said.startswith(f"{tmp_path} holds runs that train on all samples, and a method that sets public samples")


def test_how_many_samples_clients_hold(tmp_path: Path) -> None:
    made.run(tmp_path / "a0", "standalone")
    made.run(tmp_path / "a1", "standalone", seed=1)
    found = groups(read_runs([tmp_path])[0])
    assert (samples(found[0]), unequal(found)) == ((80, 80), False)
    path = made.run(tmp_path / "b1", "fd", seed=1) / "inputs.json"
    path.write_text(path.read_text().replace('["80", "80"]', '["70", "90"]'))
    found = groups(read_runs([tmp_path])[0])
    assert [samples(group) for group in found] == [(80, 80), (70, 90)]
    assert unequal(found)
    for count in ('"x"', '"9e3"', f'"{"9" * 6000}"'):
        path.write_text(path.read_text().replace('["70", "90"]', f'[{count}, "90"]'))
        assert samples(groups(read_runs([tmp_path / "b1"])[0])[0]) is None
        path.write_text(path.read_text().replace(count, '"70"'))
