"""Files are either whole or not there."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from potluck.errors import RunError
from potluck.run.files import (
    checksum,
    checksum_to,
    open_regular,
    read_bytes,
    read_json,
    read_tensors,
    refuse_links,
    size_of,
    write_bytes,
    write_json,
    write_tensors,
)


def test_a_file_is_written_with_its_folder_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep/er/file"
    write_bytes(path, b"old")
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["file"]  # noqa: PTH208 (nothing hidden either)


@pytest.mark.parametrize(("where", "failing"), [(os, "fsync"), (Path, "replace")])
def test_what_cannot_be_written_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: object, failing: str
) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def fail(*_arguments: object) -> None:
        assert path.read_bytes() == b"old"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(where, failing, fail)
    with pytest.raises(RunError, match=r"cannot write .*/file: No space left on device\."):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_the_content_is_on_the_disk_before_it_has_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fsync, synced = tmp_path / "file", os.fsync, []

    def look(file: int) -> None:
        assert not path.exists()
        assert os.fstat(file).st_size == 3
        synced.append(file)
        fsync(file)

    monkeypatch.setattr(os, "fsync", look)
    write_bytes(path, b"new")
    assert len(synced) == 1


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        write_bytes(tmp_path / "file/below", b"")


def test_json_holds_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file", {"x": float("nan")})
    assert not list(tmp_path.iterdir())


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "tensors"
    written = {
        "float": torch.randn(3, 4).t(),  # not contiguous
        "double": torch.tensor([1e-300, -0.0, 1 / 3], dtype=torch.float64),
        "whole": torch.tensor(7),
        "none": torch.empty(0, 5),
        "channels last": torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    }
    crc, size = write_tensors(path, written)
    assert crc == checksum(path) == zlib.crc32(path.read_bytes())
    assert size == size_of(path) == len(path.read_bytes())
    read = read_tensors(path)
    assert read.keys() == written.keys()
    for name, tensor in written.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)


@pytest.mark.parametrize("content", [None, b"", b"\x08\0\0\0\0\0\0\0", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}more"])
def test_tensors_that_are_missing_or_damaged(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "tensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RunError, match="cannot read .*tensors: No such file" if content is None else "is damaged"):
        read_tensors(path)


def test_checksum_of_what_is_not_there(tmp_path: Path) -> None:
    assert checksum(tmp_path / "nothing") is None
    assert checksum(tmp_path) is None


# ---- only regular files -------------------------------------------------------------------------------------------


def _link(path: Path) -> None:
    target = path.with_name("outside")
    target.write_bytes(b"outside")
    path.symlink_to(target)


KINDS: dict[str, Callable[[Path], object]] = {
    "a link": _link,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    KINDS[kind](path)
    said = rf"file is {' '.join(kind.split()[:2])}, and has to be a regular file"
    for use in (open_regular, lambda path: open_regular(path, "ab"), read_bytes, read_json, read_tensors):
        with pytest.raises(RunError, match=said):
            use(path)
    assert checksum(path) is None
    if kind == "a link":
        assert (tmp_path / "outside").read_bytes() == b"outside"


@pytest.mark.parametrize("kind", KINDS)
def test_links_and_pipes_below_a_folder_are_refused(tmp_path: Path, kind: str) -> None:
    refuse_links(tmp_path / "nothing")
    KINDS[kind](tmp_path / "file")
    if kind == "a folder":
        refuse_links(tmp_path)
    else:
        with pytest.raises(RunError, match=rf"file is {' '.join(kind.split()[:2])}: only files and folders may be"):
            refuse_links(tmp_path)


def test_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(RunError, match=r"cannot read .*file: No such file"):
        read_bytes(path)
    with open_regular(path, "ab") as file:
        file.write(b"[1")
    with open_regular(path, "ab") as file:
        assert file.write(b"]") == 1
    assert read_json(path) == [1]
    assert read_bytes(path, 3) == b"[1]"
    with pytest.raises(RunError, match="file is damaged: it has 3 bytes, and may have 2"):
        read_bytes(path, 2)
    with pytest.raises(RunError, match="cannot read"):
        read_bytes(Path("a\0b"))
    assert checksum_to(path, 2) == zlib.crc32(b"[1")
    assert checksum_to(path, 4) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 200_000, b"\xff", b"NaN", b"[1e999]", b"-Infinity", b"9" * 5000])
def test_json_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(RunError, match="file is damaged: "):
        read_json(path)


def test_a_link_in_place_of_a_half_written_file_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"outside")
    (tmp_path / f".file.{os.getpid()}.part").symlink_to(tmp_path / "outside")
    write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "outside").read_bytes() == b"outside"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_folders_below_each_other(tmp_path: Path) -> None:
    path = tmp_path / "clients"
    path.joinpath(*"abc").mkdir(parents=True)
    refuse_links(path)
    path.joinpath(*["d"] * 17).mkdir(parents=True)
    with pytest.raises(RunError, match="clients has folders below each other, more than 16"):
        refuse_links(path)
