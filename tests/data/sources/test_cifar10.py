"""The CIFAR-10 reader, on files made here with as many records as we like."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from potluck.data.sources import cifar10, load
from potluck.errors import DataError

RECORDS = 5


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of six small files; the reader is told their size and checksums in place of the published ones."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    sums = {}
    for name in cifar10._MD5:
        records = rng.integers(0, 256, (RECORDS, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        (folder / name).write_bytes(records.tobytes())
        sums[name] = hashlib.md5(records.tobytes(), usedforsecurity=False).hexdigest()
    monkeypatch.setattr(cifar10, "_MD5", sums)
    monkeypatch.setattr(cifar10, "_PER_FILE", RECORDS)
    return folder


def test_reads_labels_and_planes_in_order(made: Path) -> None:
    source = load("cifar-10", made.parent)
    assert source.x.shape == (6 * RECORDS, 3, 32, 32)
    assert (source.test_from, source.default_split, source.classes) == (5 * RECORDS, "release", 10)
    # Literally by the format's description: byte 0 is the class; then all of red, of green, of blue, row by row.
    for index, name in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]):
        content = (made / name).read_bytes()
        for record in range(RECORDS):
            row = index * RECORDS + record
            assert source.y[row] == content[record * 3073]
            for channel, line, column in ((0, 0, 0), (0, 0, 31), (1, 5, 7), (2, 31, 31)):
                at = record * 3073 + 1 + channel * 1024 + line * 32 + column
                assert source.x[row, channel, line, column] == content[at]


def test_missing_file(made: Path) -> None:
    (made / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_3\.bin is missing.*Unpack cifar-10-binary\.tar\.gz"):
        load("cifar-10", made.parent)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], r"truncated: 15,364 bytes instead of 15,365"),
        (lambda content: content[:0], "truncated: 0 bytes"),
        (lambda content: content + b"x", "too long"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "altered"),
    ],
)
@pytest.mark.parametrize("name", ["data_batch_1.bin", "test_batch.bin"])
def test_damaged_file(made: Path, name: str, change: object, message: str) -> None:
    assert callable(change)
    path = made / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message) as caught:
        load("cifar-10", made.parent)
    assert str(path) in str(caught.value)
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in str(caught.value)


def test_published_sizes_and_sums_are_complete() -> None:
    assert cifar10._PER_FILE * cifar10._RECORD == 30_730_000
    assert all(len(md5) == 32 for md5 in cifar10._MD5.values())
    assert list(cifar10._MD5)[-1] == "test_batch.bin"


def test_real_files_where_there_are_any() -> None:
    try:
        source = load("cifar-10")
    except DataError as error:
        pytest.skip(str(error))
    assert torch.bincount(source.y[:50_000]).tolist() == [5000] * 10
    assert torch.bincount(source.y[50_000:]).tolist() == [1000] * 10
