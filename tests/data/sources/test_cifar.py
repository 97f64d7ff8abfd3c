"""CIFAR-10 and CIFAR-100 in all their forms, on files made here with as many records as we like."""

from __future__ import annotations

import gzip
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from data.sources import made
from potluck.data.sources import cifar10, cifar100, load
from potluck.data.sources.published import Form
from potluck.errors import DataError


class Made(NamedTuple):
    """A data set as if it had been published small."""

    name: str
    label_bytes: int
    binary: Form
    binary_contents: made.Contents
    python: Form
    python_contents: made.Contents


@pytest.fixture(params=["cifar-10", "cifar-100"])
def published(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Made:
    name = request.param
    module, classes, label_bytes, key = {
        "cifar-10": (cifar10, 10, 1, b"labels"),
        "cifar-100": (cifar100, 100, 2, b"fine_labels"),
    }[name]
    binary = made.binary_contents(module.BINARY, classes, label_bytes)
    python = made.python_contents(module.PYTHON, binary, label_bytes, key)
    forms = made.retold(module.BINARY, binary), made.retold(module.PYTHON, python)
    monkeypatch.setattr(module, "BINARY", forms[0])
    monkeypatch.setattr(module, "PYTHON", forms[1])
    return Made(name, label_bytes, forms[0], binary, forms[1], python)


def check(published: Made, data_dir: Path) -> None:
    """Literally by the format's description: labels; then all of red, of green, of blue, row by row."""
    source = load(published.name, data_dir)
    assert (source.test_from, source.default_split) == (25, "release")
    assert source.x.shape == (30, 3, 32, 32)
    joined, record = b"".join(published.binary_contents.values()), published.label_bytes + 3072
    for row in range(30):
        assert source.y[row] == joined[row * record + published.label_bytes - 1]
        for channel, line, column in ((0, 0, 0), (0, 0, 31), (1, 5, 7), (2, 31, 31)):
            at = row * record + published.label_bytes + channel * 1024 + line * 32 + column
            assert source.x[row, channel, line, column] == joined[at]


def test_binary_folder(published: Made, tmp_path: Path) -> None:
    made.folder(tmp_path / published.binary.folders[0], published.binary, published.binary_contents)
    check(published, tmp_path)


def test_python_folder(published: Made, tmp_path: Path) -> None:
    made.folder(tmp_path / published.python.folders[0], published.python, published.python_contents)
    check(published, tmp_path)


def test_binary_archive(published: Made, tmp_path: Path) -> None:
    made.tar(tmp_path / published.binary.archives[0], published.binary, published.binary_contents)
    check(published, tmp_path)


def test_python_archive(published: Made, tmp_path: Path) -> None:
    made.tar(tmp_path / published.python.archives[0], published.python, published.python_contents)
    check(published, tmp_path)


def test_names_of_the_published_archives() -> None:
    for form, folder, archive in (
        (cifar10.BINARY, "cifar-10-batches-bin", "cifar-10-binary.tar.gz"),
        (cifar10.PYTHON, "cifar-10-batches-py", "cifar-10-python.tar.gz"),
        (cifar100.BINARY, "cifar-100-binary", "cifar-100-binary.tar.gz"),
        (cifar100.PYTHON, "cifar-100-python", "cifar-100-python.tar.gz"),
    ):
        assert (form.folders, form.inside, form.archives) == ((folder,), folder, (archive,))
        assert form.downloads[0].urls == (f"https://www.cs.toronto.edu/~kriz/{archive}",)
        assert all(file.md5 and len(file.md5) == 32 for file in form.files.values())
    assert sum(file.size or 0 for file in cifar10.BINARY.files.values()) == 6 * 30_730_000
    assert [file.size for file in cifar100.BINARY.files.values()] == [153_700_000, 30_740_000]
    assert len(cifar100.CLASS_NAMES) == 100
    assert sorted(cifar100.CLASS_NAMES) == list(cifar100.CLASS_NAMES)


def test_normalisation_is_that_of_the_released_code(published: Made, tmp_path: Path) -> None:
    made.folder(tmp_path / published.binary.folders[0], published.binary, published.binary_contents)
    source = load(published.name, tmp_path)
    expected = {
        "cifar-10": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        "cifar-100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    }
    assert (source.mean, source.std) == expected[published.name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], "is truncated: "),
        (lambda content: content[:0], "truncated: 0 bytes"),
        (lambda content: content + b"x", "too long"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "altered"),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_damaged_file(
    published: Made, tmp_path: Path, last: bool, change: Callable[[bytes], bytes], message: str
) -> None:
    folder = made.folder(tmp_path / published.binary.folders[0], published.binary, published.binary_contents)
    path = folder / list(published.binary.files)[-1 if last else 0]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message) as caught:
        load(published.name, tmp_path)
    assert str(path) in str(caught.value)
    assert "https://www.cs.toronto.edu/~kriz/cifar.html again." in str(caught.value)


def test_missing_file(published: Made, tmp_path: Path) -> None:
    folder = made.folder(tmp_path / published.binary.folders[0], published.binary, published.binary_contents)
    name = list(published.binary.files)[1]
    (folder / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is missing\. Unpack cifar-.*-binary\.tar\.gz from"):
        load(published.name, tmp_path)


def test_label_that_is_no_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = made.binary_contents(cifar10.BINARY, 11, 1, records=40)
    monkeypatch.setattr(cifar10, "BINARY", made.retold(cifar10.BINARY, contents))
    made.folder(tmp_path / "cifar-10-batches-bin", cifar10.BINARY, contents)
    with pytest.raises(DataError, match=r"data_batch_1\.bin has label 10, and there are 10 classes, from 0\. Unpack"):
        load("cifar-10", tmp_path)


def test_half_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = dict.fromkeys(cifar10.BINARY.files, bytes(3073 + 1))
    monkeypatch.setattr(cifar10, "BINARY", made.retold(cifar10.BINARY, contents))
    made.folder(tmp_path / "cifar-10-batches-bin", cifar10.BINARY, contents)
    with pytest.raises(DataError, match=r"data_batch_1\.bin has 3,074 bytes, no multiple of 3,073"):
        load("cifar-10", tmp_path)


# ---- archives -----------------------------------------------------------------------------------------------------


def test_damaged_archives(published: Made, tmp_path: Path) -> None:
    path = made.tar(tmp_path / published.binary.archives[0], published.binary, published.binary_contents)
    good = path.read_bytes()
    unpacked = gzip.decompress(good)
    for damaged in (
        b"",
        b"<html>404</html>",
        good[: len(good) // 2],
        good[:40],
        good[:1000] + bytes(1000) + good[2000:],
        gzip.compress(b"no archive"),
        gzip.compress(unpacked[: len(unpacked) // 2]),
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"Unpack cifar-1.*-binary\.tar\.gz from .* again\.") as caught:
            load(published.name, tmp_path)
        assert str(path) in str(caught.value)


def header(name: str, kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "content",
    [
        (header("long", tarfile.GNUTYPE_LONGNAME, 1) + b"a" + bytes(511)) * 3000,  # a name for a name for a name ...
        header("x", tarfile.XHDTYPE, 22) + b"22 GNU.sparse.size=ab\n" + bytes(490) + header("f", tarfile.REGTYPE, 0),
    ],
    ids=["deep", "no number"],
)
def test_archives_made_to_fail(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match=r"the archive .*cifar-10-binary\.tar\.gz cannot be read: .* again\."):
        load("cifar-10", tmp_path)


def test_archive_without_a_file(published: Made, tmp_path: Path) -> None:
    less = dict(list(published.binary_contents.items())[1:])
    path = made.tar(tmp_path / published.binary.archives[0], published.binary, less)
    name = f"{published.binary.inside}/{next(iter(published.binary_contents))}"
    with pytest.raises(DataError, match=f"archive {path} does not hold {name}"):
        load(published.name, tmp_path)


def test_altered_file_in_an_archive(published: Made, tmp_path: Path) -> None:
    contents = dict(published.binary_contents)
    name = next(iter(contents))
    contents[name] = contents[name][:-1] + bytes([contents[name][-1] ^ 1])
    path = made.tar(tmp_path / published.binary.archives[0], published.binary, contents)
    with pytest.raises(DataError, match=f"the file {published.binary.inside}/{name} in {path} has the right size but"):
        load(published.name, tmp_path)


def test_archive_that_is_a_bomb(published: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.data.sources.files._MORE", 1 << 20)
    more = {"bomb": bytes(8 << 20)}  # 8 MiB of zeros take 8 KiB
    path = made.tar(tmp_path / published.binary.archives[0], published.binary, published.binary_contents, more)
    with pytest.raises(DataError, match=rf"archive {path} cannot be read: it unpacks to more than [\d,]+ bytes"):
        load(published.name, tmp_path)


# ---- Python's pickles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "holds no images"),
        ({b"labels": [1]}, "holds no images of 3,072 bytes under 'data'"),
        ({b"labels": [1], b"data": [1]}, "holds no images"),
        ({b"labels": [1], b"data": np.zeros(3072, np.uint8)}, "holds no images"),
        ({b"labels": [1], b"data": np.zeros((1, 3071), np.uint8)}, "holds no images"),
        ({b"data": np.zeros((1, 3072), np.uint8)}, "holds no list of 1 numbers under 'labels'"),
        ({b"labels": [1, 2], b"data": np.zeros((1, 3072), np.uint8)}, "holds no list of 1 numbers"),
        ({b"labels": [b"1"], b"data": np.zeros((1, 3072), np.uint8)}, "holds no list of 1 numbers"),
        ({b"labels": [-1], b"data": np.zeros((1, 3072), np.uint8)}, "holds labels that are no classes"),
        ({b"labels": [10], b"data": np.zeros((1, 3072), np.uint8)}, "has label 10, and there are 10 classes"),
    ],
)
def test_pickles_of_something_else(
    value: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = dict.fromkeys(cifar10.PYTHON.files, pickle.dumps(value))
    monkeypatch.setattr(cifar10, "PYTHON", made.retold(cifar10.PYTHON, contents))
    path = made.folder(tmp_path / "cifar-10-batches-py", cifar10.PYTHON, contents) / "data_batch_1"
    with pytest.raises(DataError, match=message) as caught:
        load("cifar-10", tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("name", "classes"), [("cifar-10", 10), ("cifar-100", 100)])
def test_real_files_where_there_are_any(name: str, classes: int) -> None:
    try:
        source = load(name)
    except DataError as error:
        pytest.skip(str(error))
    assert torch.bincount(source.y[:50_000]).tolist() == [50_000 // classes] * classes
    assert torch.bincount(source.y[50_000:]).tolist() == [10_000 // classes] * classes
