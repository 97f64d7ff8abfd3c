"""The idx reader, on good files and on damaged ones."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
import torch

from potluck.data.sources import idx
from potluck.errors import DataError

IMAGES = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (2, 3, 4)) + bytes(range(24))


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


def test_reads_dimensions_and_values(tmp_path: Path) -> None:
    values = idx.read(write(tmp_path / "a.gz", IMAGES), 3, "Fetch it", hashlib.sha256(IMAGES).hexdigest())
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
        (IMAGES[:-1] + b"\xff", "altered"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path / "images.gz", content)
    with pytest.raises(DataError, match=message) as caught:
        idx.read(path, 3, "Fetch it", hashlib.sha256(IMAGES).hexdigest())
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("Fetch it.")


def test_damaged_compression_is_named(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    good = gzip.compress(IMAGES)
    damaged = {
        "truncated": [b"", good[:-1], good[: len(good) // 2], good[:5]],
        "damaged": [IMAGES, good[:12] + bytes([good[12] ^ 0xFF]) + good[13:], good[:-8] + b"\0" * 8, good + b"more"],
    }
    for message, contents in damaged.items():
        for content in contents:
            path.write_bytes(content)
            with pytest.raises(DataError, match=f"{message}|no idx file" if not content else message) as caught:
                idx.read(path, 3, "Fetch it")
            assert str(path) in str(caught.value)


def test_missing_and_unreadable(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.gz is missing\. Fetch it\."):
        idx.read(tmp_path / "none.gz", 3, "Fetch it")
    with pytest.raises(DataError, match="cannot be read"):
        idx.read(tmp_path, 3, "Fetch it")  # a folder
