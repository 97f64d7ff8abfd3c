"""The places where data sets are looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from potluck.data.sources.locate import locate, places
from potluck.errors import DataError


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
        assert locate("set", "set.tar", tmp_path / "given") == place / "set"


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
        locate("set", "set.tar.gz from https://example.org", tmp_path / "given")
    for part in (str(tmp_path / "given"), str(tmp_path / "cache/potluck"), "set/", "--data-dir", "$POTLUCK_DATA"):
        assert part in str(caught.value)
    assert "Unpack set.tar.gz from https://example.org in one of them" in str(caught.value)


def test_a_file_where_a_folder_belongs(tmp_path: Path) -> None:
    (tmp_path / "set").touch()
    with pytest.raises(DataError, match="set is a file, not a folder"):
        locate("set", "set.tar", tmp_path)
    with pytest.raises(DataError, match=r"/set is a file, not a folder"):
        locate("other", "set.tar", tmp_path / "set")


def test_unreadable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)  # the tests may run as root, whom no mode stops
    with pytest.raises(DataError, match=r"cannot open .*set \(Permission denied\)"):
        locate("set", "set.tar", tmp_path)


def test_impossible_path() -> None:
    with pytest.raises(DataError, match="cannot open"):
        locate("set", "set.tar", "nul\0byte")
