"""NumPy files of one's own."""

from __future__ import annotations

import io
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from potluck.data.sources import load, npz
from potluck.errors import DataError

X = np.arange(6 * 5 * 4, dtype=np.uint8).reshape(6, 5, 4)
Y = np.array([0, 1, 2, 0, 1, 2])


def save(path: Path, compressed: bool = False, **arrays: Any) -> str:
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return str(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_x_and_y(tmp_path: Path, compressed: bool) -> None:
    source = load(save(tmp_path / "mine.npz", compressed, x=X, y=Y, more=np.zeros(3)))
    assert (source.name, source.shape, source.classes) == ("mine", (1, 5, 4), 3)
    assert (source.test_from, source.default_split, source.mean, source.std) == (None, "8:1:1", (0.5,), (0.5,))
    assert np.array_equal(source.x[:, 0].numpy(), X)
    assert source.y.tolist() == Y.tolist()
    assert source.class_names == ("0", "1", "2")


def test_official_split(tmp_path: Path) -> None:
    parts = {"x_train": X[:4], "y_train": Y[:4].astype(np.uint8), "x_test": X[4:], "y_test": Y[4:].reshape(-1, 1)}
    source = load(save(tmp_path / "a.npz", False, **parts))
    assert (source.test_from, source.default_split) == (4, "official")
    assert np.array_equal(source.x[:, 0].numpy(), X)
    assert source.y.tolist() == Y.tolist()


def test_labels_that_are_names(tmp_path: Path) -> None:
    names = np.array(["mouse", "猫", "[bold] dog"])
    source = load(save(tmp_path / "a.npz", x=X, y=names[Y]))
    assert source.class_names == ("[bold] dog", "mouse", "猫")
    assert [source.class_names[label] for label in source.y] == names[Y].tolist()
    parts = {"x_train": X[:4], "y_train": names[Y[:4]], "x_test": X[4:], "y_test": names[Y[4:]]}
    assert load(save(tmp_path / "b.npz", False, **parts)).y.tolist() == source.y.tolist()


def test_a_test_set_may_lack_a_class(tmp_path: Path) -> None:
    parts = {"x_train": X, "y_train": Y, "x_test": X[:2], "y_test": Y[:2].astype(np.uint64)}
    source = load(save(tmp_path / "a.npz", False, **parts))
    assert (source.classes, source.y.tolist()) == (3, [0, 1, 2, 0, 1, 2, 0, 1])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_channels_first_or_last(tmp_path: Path, channels: int, order: Any) -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, channels, 5, 4), dtype=np.uint8)
    for name, values in (("first.npz", x), ("last.npz", x.transpose(0, 2, 3, 1))):
        source = load(save(tmp_path / name, x=np.asarray(values, order=order), y=Y))
        assert np.array_equal(source.x.numpy(), x)
        assert source.x.is_contiguous()
        assert len(source.mean) == channels


def objects(path: Path) -> None:
    np.savez(path, x=np.array([print], dtype=object), y=Y)


def raw(path: Path, header: bytes, content: bytes = bytes(120)) -> None:
    y = io.BytesIO()
    np.save(y, Y)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header + content)
        archive.writestr("y.npy", y.getvalue())


def header() -> bytes:
    saved = io.BytesIO()
    np.save(saved, X)
    return saved.getvalue()[: -X.size]


HEADER = header()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), "cannot be read as a NumPy .npz file"),
        (lambda path: path.write_text("hello"), "cannot be read as a NumPy .npz file: File is not a zip file"),
        (lambda path: np.save(path.open("wb"), X), "cannot be read as a NumPy .npz file"),
        (lambda path: path.mkdir(), "cannot be read as a NumPy .npz file: Is a directory\\."),
        (lambda _: None, "there is no file"),
        (lambda path: save(path, images=X, labels=Y), "holds images, labels: it needs arrays x and y"),
        (save, "holds nothing: it needs"),
        (lambda path: save(path, x=X, y_train=Y), "it needs arrays x and y, or x_train"),
        (objects, "x.npy in .* holds Python objects, not numbers"),
        (lambda path: save(path, x=X / 255, y=Y), "x in .* is float64 of shape \\(6, 5, 4\\): images are uint8"),
        (lambda path: save(path, x=X.reshape(6, 20), y=Y), "x in .* of shape \\(6, 20\\): images are"),
        (lambda path: save(path, x=X[:, :0], y=Y), "x in .* of shape \\(6, 0, 4\\): images are"),
        (lambda path: save(path, x=X.reshape(6, 2, 5, 2), y=Y), "one alone, must be 1 or 3"),
        (lambda path: save(path, x=np.zeros((6, 3, 4, 3), np.uint8), y=Y), "one alone, must be 1 or 3"),
        (lambda path: save(path, x=X, y=Y[:5]), "holds 6 images and 5 labels in y: give one"),
        (
            lambda path: save(path, x_train=X[:4], y_train=Y[:5], x_test=X[4:], y_test=Y[5:]),  # six of both, in all
            "holds 4 images and 5 labels in y_train: give one",
        ),
        (lambda path: save(path, x=X, y=Y + 0.5), "y in .* is float64 of shape .*: labels are whole numbers or text"),
        (lambda path: save(path, x=X, y=np.stack([Y, Y], 1)), "y in .* of shape \\(6, 2\\): labels are whole"),
        (lambda path: save(path, x=X, y=Y - 1), "has 3 classes with labels from -1 to 1: number classes from 0"),
        (lambda path: save(path, x=X, y=Y + 1), "has 3 classes with labels from 1 to 3: number classes from 0"),
        (lambda path: save(path, x=X, y=Y * 10**12), "has 3 classes with labels from 0 to 2000000000000: number"),
        (lambda path: save(path, x=X, y=Y * 2), "has 3 classes with labels from 0 to 4: number .* without gaps"),
        (lambda path: save(path, x=X, y=Y * 0), "has images of one class, 0: two or more are needed"),
        (lambda path: save(path, x=X, y=np.array(["cat"] * 6)), "has images of one class, cat: two or more"),
        (
            lambda path: save(path, x_train=X, y_train=Y % 2, x_test=X, y_test=Y),
            "y_test in .* has the label 2, which y_train does not have",
        ),
        (
            lambda path: save(path, x_train=X, y_train=Y, x_test=X, y_test=Y.astype(str)),
            "has labels of numbers and labels of text: give one kind",
        ),
        (
            lambda path: save(path, x_train=X, y_train=Y, x_test=X[:, :2], y_test=Y),
            "training images of shape .* and test images of .* must agree",
        ),
        (lambda path: raw(path, HEADER, bytes(119)), "x.npy in .* is damaged: its values do not fit its shape"),
        (lambda path: raw(path, HEADER, bytes(121)), "x.npy in .* is damaged"),
        (lambda path: raw(path, HEADER.replace(b"(6, 5, 4)", b"(9**9,)  ")), "cannot be read"),
        (lambda path: raw(path, HEADER.replace(b"(6, 5, 4)", b"(6, 5, 4 ")), "cannot be read"),  # never closed
        (lambda path: raw(path, HEADER.replace(b"(6, 5, 4)", b"(-120, 1)")), "x.npy in .* is damaged"),
        (lambda path: raw(path, HEADER.replace(b"(6, 5, 4)", b"(-6,-5,4)")), "x.npy in .* is damaged"),
        (lambda path: raw(path, b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + HEADER[10:]), "cannot be read"),
        (lambda path: raw(path, b"\x93NUMPY\x07\x00"), "unknown version of NumPy's format"),
        (lambda path: raw(path, b""), "cannot be read"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, make: Any, message: str) -> None:
    path = tmp_path / "mine.npz"
    raw(path, HEADER)
    assert load(str(path)).shape == (1, 5, 4)  # what is damaged below was good
    path.unlink()
    make(path)
    with pytest.raises(DataError, match=message) as caught:
        load(str(path))
    assert str(path) in str(caught.value)


def test_truncated(tmp_path: Path) -> None:
    path = Path(
        save(tmp_path / "mine.npz", True, x=np.random.default_rng(0).integers(0, 256, (60, 9, 9), np.uint8), y=Y)
    )
    good = path.read_bytes()
    for damaged in (good[:-30], good[: len(good) // 2], good[:1000] + bytes(500) + good[1500:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"mine\.npz cannot be read as a NumPy \.npz file"):
            load(str(path))


def test_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "_BOMB_FROM", 1 << 20)
    save(tmp_path / "a.npz", True, x=np.zeros((2000, 32, 32), np.uint8), y=np.arange(2000) % 2)
    with pytest.raises(DataError, match=r"a\.npz unpacks [\d,]+ bytes of x\.npy to 2,048,128: these are no images"):
        load(str(tmp_path / "a.npz"))
    # Stored as it is, the same array is not suspicious.
    assert len(load(save(tmp_path / "b.npz", False, x=np.zeros((2000, 32, 32), np.uint8), y=np.arange(2000) % 2)).y)


def lying(path: Path, claimed: int, kind: int) -> None:
    """64 MiB of zeros as an array, in an archive that claims less."""
    content = HEADER.replace(b"(6, 5, 4)", b"(%9d,)" % (64 << 20))[: len(HEADER)] + bytes(64 << 20)
    y = io.BytesIO()
    np.save(y, Y)
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("x.npy", content)
        archive.writestr("y.npy", y.getvalue())
        archive.getinfo("x.npy").file_size = claimed


@pytest.mark.parametrize("claimed", [200, 1 << 20])
@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_no_more_is_unpacked_than_is_claimed(tmp_path: Path, claimed: int, kind: int) -> None:
    lying(tmp_path / "a.npz", claimed, kind)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a\.npz cannot be read as a NumPy \.npz file: "):
            load(str(tmp_path / "a.npz"))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_images_are_not_copied(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", False, x=np.zeros((4096, 64, 64), np.uint8), y=np.arange(4096) % 2)  # 16 MiB
    tracemalloc.start()
    try:
        load(path)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_never_ends_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine.npz"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"mine\.npz is a pipe or a device"):
        load(str(path))
