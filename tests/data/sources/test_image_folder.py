"""Folders of images of one's own."""

from __future__ import annotations

import struct
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from potluck.data.sources import load
from potluck.errors import DataError


def picture(path: Path, value: int, size: tuple[int, int] = (6, 4), mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"L": 1, "RGB": 3, "RGBA": 4}[mode]
    pixels = np.full((size[1], size[0], channels), value, dtype=np.uint8)
    pixels[0, 1] = 200
    Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(path)


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    folder = tmp_path / "animals"
    for label, name in enumerate(("cat", "dog")):
        for index in range(3):
            picture(folder / name / f"{index}.png", 10 * label + index)
    return folder


def test_a_class_is_a_folder(animals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (animals / "readme.txt").write_text("not looked at")
    (animals / ".git").mkdir()
    (animals / "cat/.DS_Store").write_text("")
    (animals / "dog/Thumbs.db").write_text("")
    source = load(str(animals))
    assert (source.name, source.class_names, source.shape) == ("animals", ("cat", "dog"), (1, 4, 6))
    assert source.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert source.x[:, 0, 2, 2].tolist() == [0, 1, 2, 10, 11, 12]
    assert source.x[0, 0, 0, :3].tolist() == [0, 200, 0]  # row 0, column 1
    assert (source.test_from, source.default_split, source.mean, source.std) == (None, "8:1:1", (0.5,), (0.5,))
    monkeypatch.chdir(animals.parent)
    assert load("./animals").y.tolist() == source.y.tolist()


def test_one_in_colour_makes_all_coloured(animals: Path) -> None:
    picture(animals / "dog/9.png", 7, mode="RGB")
    picture(animals / "dog/a.png", 8, mode="RGBA")
    image = Image.new("P", (6, 4))
    image.putpalette([0, 0, 0, 9, 8, 7])
    image.putpixel((1, 0), 1)
    image.save(animals / "dog/b.gif")
    source = load(str(animals))
    assert source.shape == (3, 4, 6)
    assert source.x[:, :, 2, 2].tolist() == [[v] * 3 for v in (0, 1, 2, 10, 11, 12, 7, 8, 0)]
    assert source.x[-1, :, 0, 1].tolist() == [9, 8, 7]


def test_only_one_image_is_held_beside_the_array(tmp_path: Path) -> None:
    for index in range(40):
        picture(tmp_path / "large" / "ab"[index % 2] / f"{index}.png", index, (512, 512), mode="RGB")
    opened = []
    original = Image.Image.convert

    def convert(image: Image.Image, mode: str) -> Image.Image:
        result = original(image, mode)
        opened.append(weakref.ref(result))
        assert sum(ref() is not None for ref in opened) <= 3  # the first, the one before, and this one
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image.Image, "convert", convert)
        assert load(str(tmp_path / "large")).x.shape == (40, 3, 512, 512)
    assert len(opened) == 41


def test_too_many_large_images(animals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("potluck.data.sources.image_folder.np.empty", full)
    with pytest.raises(DataError, match="6 images of 6x4 pixels do not fit into memory: make them smaller"):
        load(str(animals))


def test_train_and_test_folders_are_the_official_split(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("test", 2)):
        for label, name in enumerate("abc"):
            for index in range(count):
                picture(tmp_path / "mine" / part / name / f"{index}.png", label)
    source = load(str(tmp_path / "mine"))
    assert (source.test_from, source.default_split, source.class_names) == (9, "official", ("a", "b", "c"))
    assert source.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 1, 1, 2, 2]
    picture(tmp_path / "mine/test/d/0.png", 1)
    with pytest.raises(DataError, match=r"mine/test/d is a class that .*mine/train does not have"):
        load(str(tmp_path / "mine"))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def bomb(path: Path, width: int, height: int) -> None:
    """A PNG of a few hundred bytes that claims to be of this size."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    content = chunk(b"IDAT", zlib.compress(bytes(100_000)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + content + chunk(b"IEND", b""))


def cut(path: Path, to: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(to * len(content))])


@pytest.mark.parametrize(
    ("damage", "file", "message"),
    [
        (lambda path: path.write_text("hello"), "dog/1.png", "is no image"),
        (lambda path: path.write_bytes(b""), "dog/1.png", "is no image"),
        (lambda path: path.write_text("hello"), "dog/notes.txt", "is no image .*: remove it"),
        (lambda path: path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 4\n"), "dog/1.eps", "is no image"),
        (lambda path: cut(path, 0.6), "cat/2.png", "is a damaged image|is no image"),
        (lambda path: path.write_bytes(path.read_bytes()[:45] + bytes(30)), "cat/2.png", "is a damaged image"),
        (lambda path: bomb(path, 5000, 5000), "cat/2.png", "claims to be an image of 5000x5000 pixels"),
        (lambda path: bomb(path, 30_000, 30_000), "cat/2.png", "claims to be an image of more pixels"),
        (lambda path: bomb(path, 12_000, 12_000), "cat/2.png", "claims to be an image of more pixels"),
        (lambda path: picture(path, 0, (4, 6)), "dog/0.png", "is an image of 4x6 pixels, .*cat/0.png one of 6x4"),
        (lambda path: Image.new("I;16", (6, 4)).save(path), "dog/0.png", "of kind 'I;16': save it with 8 bits"),
        (lambda path: path.mkdir(), "dog/inner", "is a folder where an image should be"),
        (lambda path: path.mkdir(), "bird", "class folder .*bird holds no image"),
    ],
)
def test_what_is_wrong_is_named(animals: Path, damage: Callable[[Path], None], file: str, message: str) -> None:
    damage(animals / file)
    with pytest.raises(DataError, match=message) as caught:
        load(str(animals))
    assert str(animals / file) in str(caught.value)


def test_jpeg_cut_short(tmp_path: Path) -> None:
    for name in ("a/0.jpg", "b/0.jpg"):
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True)
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    assert load(str(tmp_path / "mine")).shape == (3, 64, 64)
    cut(path, 0.5)
    with pytest.raises(DataError, match=rf"{path} is a damaged image \(image file is truncated"):
        load(str(tmp_path / "mine"))


def test_one_class_none_or_no_folder(tmp_path: Path) -> None:
    picture(tmp_path / "one/cat/0.png", 1)
    with pytest.raises(DataError, match=r"one has 1 class folder\(s\): put the images of each of two or more classes"):
        load(str(tmp_path / "one"))
    picture(tmp_path / "none/0.png", 1)
    with pytest.raises(DataError, match=r"none has 0 class folder\(s\)"):
        load(str(tmp_path / "none"))
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        load(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"cannot open the folder .*0\.png: Not a directory"):
        load(str(tmp_path / "none/0.png"))
    with pytest.raises(DataError, match="cannot open the folder"):
        load("/nul\0byte")
