"""The places where data sets are looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from potluck.data.sources.files import Found
from potluck.data.sources.locate import locate, places
from potluck.data.sources.published import File, Form
from potluck.errors import DataError

SET = Form(
    folders=("set",),
    files={"a": File(1), "b": File(1)},
    remedy="Unpack set.tar.gz from https://example.org",
    archives=("set.tar.gz",),
    inside="set",
)
OTHER = Form(folders=("other",), files={"c": File(1)}, remedy="Unpack other.zip", archives=("other.zip",))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data of whoever runs the tests."""
    monkeypatch.delenv("POTLUCK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_order_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POTLUCK_DATA", str(tmp_path / "environment"))
    places_with = [tmp_path / "given", tmp_path / "environment", tmp_path / "cache" / "potluck"]
    assert places(tmp_path / "given") == places_with
    assert places() == places_with[1:]
    for place in reversed(places_with):  # each one found hides those after it
        (place / "set").mkdir(parents=True)
        assert locate("set", [SET], tmp_path / "given") == Found(SET, place / "set")


@pytest.mark.parametrize("value", ["", "relative/folder", None])
def test_cache_folder_without_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("POTLUCK_DATA", "")
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert places() == [tmp_path / ".cache" / "potluck"]
    assert places("~/data")[0] == tmp_path / "data"


def test_not_found_lists_the_places_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        locate("the-set", [SET, OTHER], tmp_path / "given")
    for part in (str(tmp_path / "given"), str(tmp_path / "cache/potluck"), "set/", "--data-dir", "$POTLUCK_DATA"):
        assert part in str(caught.value)
    assert "Unpack set.tar.gz from https://example.org in one of them" in str(caught.value)
    assert "'potluck data fetch the-set'" in str(caught.value)


def test_what_is_taken_where_several_are_there(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert locate("set", [SET, OTHER], tmp_path) == Found(OTHER, tmp_path / "other")  # empty, but there
    (tmp_path / "other.zip").touch()
    assert locate("set", [SET, OTHER], tmp_path) == Found(OTHER, tmp_path / "other.zip")
    (tmp_path / "other/c").touch()
    assert locate("set", [SET, OTHER], tmp_path) == Found(OTHER, tmp_path / "other")
    (tmp_path / "set.tar.gz").touch()
    assert locate("set", [SET, OTHER], tmp_path) == Found(SET, tmp_path / "set.tar.gz")
    (tmp_path / "set").mkdir()
    assert locate("set", [SET, OTHER], tmp_path) == Found(SET, tmp_path / "set.tar.gz")
    (tmp_path / "set/b").touch()
    assert locate("set", [SET, OTHER], tmp_path) == Found(SET, tmp_path / "set")


def test_a_file_where_a_folder_belongs(tmp_path: Path) -> None:
    (tmp_path / "set").touch()
    with pytest.raises(DataError, match="set is a file, not a folder"):
        locate("set", [SET], tmp_path)
    with pytest.raises(DataError, match=r"/set is a file, not a folder"):
        locate("set", [OTHER], tmp_path / "set")


def test_unreadable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)  # the tests may run as root, whom no mode stops
    with pytest.raises(DataError, match=r"cannot open .*set \(Permission denied\)"):
        locate("set", [SET], tmp_path)


def test_impossible_path() -> None:
    with pytest.raises(DataError, match="cannot open"):
        locate("set", [SET], "nul\0byte")
