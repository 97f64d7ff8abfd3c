"""The idx format, on good content and on damaged content."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from potluck.data.sources import files, idx
from potluck.data.sources.published import File
from potluck.errors import DataError

IMAGES = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (2, 3, 4)) + bytes(range(24))


def test_reads_dimensions_and_values() -> None:
    values = idx.parse(IMAGES, 3, "the file", "Fetch it")
    assert values.dtype == torch.uint8
    assert torch.equal(values, torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no idx file"),
        (IMAGES[:10], "no idx file"),
        (bytes([0, 0, 8, 1]) + IMAGES[4:], "no idx file"),
        (bytes([0, 0, 9, 3]) + IMAGES[4:], "no idx file"),
        (bytes([1]) + IMAGES[1:], "no idx file"),
        (IMAGES[:-1], "holds 23 values, but its header says 2 x 3 x 4"),
        (IMAGES + b"\0", "holds 25 values"),
        (IMAGES[:4] + b"\xff" * 12 + IMAGES[16:], "header says"),
    ],
    ids=lambda value: value if isinstance(value, str) else "content",
)
def test_wrong_content_is_named(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=rf"the file a\.gz .*{message}.* Fetch it\.$"):
        idx.parse(content, 3, "the file a.gz", "Fetch it")


GOOD = gzip.compress(IMAGES, mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated"),
        (GOOD[:-1], "truncated"),
        (GOOD[: len(GOOD) // 2], "truncated"),
        (GOOD[:5], "truncated"),
        (IMAGES, "damaged, or was not made by gzip"),
        (GOOD[:12] + bytes([GOOD[12] ^ 0xFF]) + GOOD[13:], "damaged"),
        (GOOD[:-8] + b"\0" * 8, "damaged"),
        (GOOD + b"more", "something follows"),
        (gzip.compress(IMAGES + b"0"), "unpacks to more than 40 bytes"),
        (gzip.compress(bytes(50_000_000)), "unpacks to more than 40 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "content",  # the same in every worker of pytest
)
def test_damaged_compression_is_named(content: bytes, message: str) -> None:
    assert files.gunzip(GOOD, len(IMAGES), "the file", "Fetch it") == IMAGES
    with pytest.raises(DataError, match=rf"the file a\.gz .*{message}.* Fetch it\.$"):
        files.gunzip(content, len(IMAGES), "the file a.gz", "Fetch it")


def test_no_more_is_unpacked_than_there_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Watched:
        eof, unused_data = True, b""

        def __init__(self, wbits: int) -> None:
            assert wbits == 31  # gzip

        def decompress(self, _content: bytes, limit: int) -> bytes:
            asked.append(limit)
            return bytes(limit)

    monkeypatch.setattr(files.zlib, "decompressobj", Watched)  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="more than 7 bytes"):
        files.gunzip(b"bomb", 7, "the file", "Fetch it")
    assert asked == [8]


def test_size_and_sum() -> None:
    good = File(3, "900150983cd24fb0d6963f7d28e17f72")  # of abc, from RFC 1321
    files.check(b"abc", good, "it", "Fetch it")
    files.check(b"abd", File(3), "it", "Fetch it")
    for content, message in ((b"ab", "truncated: 2 bytes instead of 3"), (b"abcd", "too long"), (b"abd", "altered")):
        with pytest.raises(DataError, match=rf"it .*{message}.* Fetch it\."):
            files.check(content, good, "it", "Fetch it")


def test_missing_and_unreadable(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.gz is missing\. Fetch it\."):
        files.read(tmp_path / "none.gz", "Fetch it")
    with pytest.raises(DataError, match="cannot be read"):
        files.read(tmp_path, "Fetch it")  # a folder


def test_no_more_is_read_than_there_should_be(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"abc")
    assert files.read(tmp_path / "a.gz", "Fetch it", most=3) == b"abc"
    (tmp_path / "a.gz").unlink()
    (tmp_path / "a.gz").symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"a\.gz has more than 3 bytes, so it is not the published one\. Fetch it\."):
        files.read(tmp_path / "a.gz", "Fetch it", most=3)
