"""MNIST, Fashion-MNIST and EMNIST Letters, on files made here with as many images as we like."""

from __future__ import annotations

import gzip
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from data.sources import made
from potluck.data.sources import Source, emnist_letters, fashion_mnist, load, mnist
from potluck.data.sources.published import Form
from potluck.errors import DataError

MODULES: dict[str, ModuleType] = {
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "emnist-letters": emnist_letters,
}


def told(name: str, contents: made.Contents, monkeypatch: pytest.MonkeyPatch) -> Form:
    """Let the reader believe that these contents were published."""
    form = made.retold(made.FORMS[name].forms[0], contents)
    monkeypatch.setattr(MODULES[name], "PUBLISHED", replace(made.FORMS[name], forms=(form,)))
    return form


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_images_labels_and_the_official_split(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = made.idx_contents(made.FORMS[name].forms[0])
    form = told(name, contents, monkeypatch)
    made.folder(tmp_path / name, form, contents)
    source = load(name, tmp_path)
    assert source.x.shape == (17, 1, 28, 28)
    assert (source.test_from, source.default_split, source.classes, source.name) == (12, "release", 10, name)
    # Literally by the format's description: 16 bytes of header, then row by row; 8 bytes, then labels.
    for part, start, count in (("train", 0, 12), ("t10k", 12, 5)):
        images, labels = contents[f"{part}-images-idx3-ubyte.gz"], contents[f"{part}-labels-idx1-ubyte.gz"]
        for index in range(count):
            assert source.y[start + index] == labels[8 + index]
            for line, column in ((0, 0), (3, 20), (27, 27)):
                assert source.x[start + index, 0, line, column] == images[16 + index * 784 + line * 28 + column]


def test_normalisation_is_that_of_the_released_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"mnist": ((0.5071,), (0.2673,)), "fashion-mnist": ((0.5,), (0.5,)), "emnist-letters": ((0.5,), (0.5,))}
    for name, values in expected.items():
        contents = made.idx_contents(made.FORMS[name].forms[0], classes=9, first=1)
        form = told(name, contents, monkeypatch)
        made.folder(tmp_path / form.folders[0], form, contents)
        source = load(name, tmp_path)
        assert (source.mean, source.std) == values


def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Form, made.Contents]:
    contents = made.idx_contents(emnist_letters.PUBLISHED.forms[0], train=60, classes=26, first=1)
    return told("emnist-letters", contents, monkeypatch), contents


def check_letters(source: Source, contents: made.Contents) -> None:
    images, labels = (
        contents["emnist-letters-test-images-idx3-ubyte.gz"],
        contents["emnist-letters-test-labels-idx1-ubyte.gz"],
    )
    assert (source.test_from, source.classes, source.shape) == (60, 26, (1, 28, 28))
    assert (source.class_names[0], source.class_names[25]) == ("A", "Z")
    assert source.x.is_contiguous()
    for index in range(5):
        assert source.y[60 + index] == labels[8 + index] - 1
        # Stored column by column.
        for line, column in ((0, 27), (3, 20), (27, 0)):
            assert source.x[60 + index, 0, line, column] == images[16 + index * 784 + column * 28 + line]


@pytest.mark.parametrize("where", ["emnist/gzip", "emnist", "gzip"])
def test_letters_in_every_folder(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form, contents = letters(tmp_path, monkeypatch)
    made.folder(tmp_path / where, form, contents)
    check_letters(load("emnist-letters", tmp_path), contents)


@pytest.mark.parametrize("where", ["emnist/gzip.zip", "gzip.zip"])
def test_letters_in_the_archive(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form, contents = letters(tmp_path, monkeypatch)
    made.zipped(tmp_path / where, form, contents)
    check_letters(load("emnist-letters", tmp_path), contents)


def test_a_folder_called_gzip_may_be_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "gzip").mkdir()
    with pytest.raises(DataError, match="emnist/gzip/ was found in none of"):
        load("emnist-letters", tmp_path)


def test_letters_with_labels_from_zero_are_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = made.idx_contents(emnist_letters.PUBLISHED.forms[0], train=200, classes=27, first=0)
    form = told("emnist-letters", contents, monkeypatch)
    made.folder(tmp_path / "emnist", form, contents)
    with pytest.raises(DataError, match=r"emnist hold labels from 0 to 26, those of EMNIST Letters are from 1 to 26"):
        load("emnist-letters", tmp_path)


def test_published_sizes_are_those_of_the_paper() -> None:
    sizes = [file.size for file in emnist_letters.PUBLISHED.forms[0].files.values()]
    assert sizes == [97_843_216, 124_808, 16_307_216, 20_808]


def test_images_of_another_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody published a checksum of these files: their header is what tells.
    contents = made.idx_contents(emnist_letters.PUBLISHED.forms[0], first=1)
    name = "emnist-letters-test-images-idx3-ubyte.gz"
    contents[name] = made.idx(np.zeros((5, 14, 56)))
    form = told("emnist-letters", contents, monkeypatch)
    made.folder(tmp_path / "emnist", form, contents)
    with pytest.raises(DataError, match=r"emnist-letters-test-\* in .* hold 5 images of 14x56 pixels and 5 labels"):
        load("emnist-letters", tmp_path)


def test_fewer_labels_than_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = made.idx_contents(emnist_letters.PUBLISHED.forms[0], first=1)
    contents["emnist-letters-train-labels-idx1-ubyte.gz"] = made.idx(np.ones(11))
    form = told("emnist-letters", contents, monkeypatch)
    made.folder(tmp_path / "emnist", form, contents)
    with pytest.raises(DataError, match="hold 12 images of 28x28 pixels and 11 labels"):
        load("emnist-letters", tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: gzip.compress(gzip.decompress(content)[:-1]), "truncated: 9,423 bytes instead of 9,424"),
        (lambda content: content[:-9], "truncated: its compressed data end too early"),
        (lambda _: b"", "truncated"),
        (lambda _: b"<html>404</html>", "not made by gzip"),
        (lambda content: gzip.compress(gzip.decompress(content)[:-1] + b"\x07"), "altered"),
        (lambda _: gzip.compress(bytes(1_000_000)), "unpacks to more than"),
    ],
)
def test_damaged_file(change: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(change)
    contents = made.idx_contents(mnist.PUBLISHED.forms[0])
    form = told("mnist", contents, monkeypatch)
    path = made.folder(tmp_path / "mnist", form, contents) / "train-images-idx3-ubyte.gz"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message) as caught:
        load("mnist", tmp_path)
    assert str(path) in str(caught.value)
    assert "Put the four files of http://yann.lecun.com/exdb/mnist/ into mnist/ again." in str(caught.value)


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archive_that_is_a_bomb(kind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form, _ = letters(tmp_path, monkeypatch)
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w", kind) as archive:
        for name in form.files:
            archive.writestr(f"gzip/{name}", bytes(64 << 20))
            archive.getinfo(f"gzip/{name}").file_size = 1000  # so it claims
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"the archive .*gzip\.zip cannot be read: "):
            load("emnist-letters", tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("mnist", [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]),
        ("fashion-mnist", [7000] * 10),
        ("emnist-letters", [5600] * 26),
    ],
)
def test_real_files_where_there_are_any(name: str, counts: list[int]) -> None:
    try:
        source = load(name)
    except DataError as error:
        pytest.skip(str(error))
    assert torch.bincount(source.y).tolist() == counts
