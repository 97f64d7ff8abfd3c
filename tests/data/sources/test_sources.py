"""The registry, what every source promises, and the data set the package carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from potluck.data.sources import Source, absolute, fashion_mnist_10k, files, load, names, published
from potluck.errors import DataError


def test_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(DataError, match="did you mean 'cifar-10'"):
        load("cifar10")


def test_unknown_name_that_is_a_folder_gets_told_how_to_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cats").mkdir()
    with pytest.raises(DataError, match=r"unknown data set 'cats'\. .* To read the folder cats, write \./cats\."):
        load("cats")
    with pytest.raises(DataError, match="unknown data set ''"):
        load("")
    with pytest.raises(DataError, match="unknown data set 'aaa"):
        load("a" * 300)  # longer than any file's name
    with pytest.raises(DataError, match="unknown data set 'dogs'"):
        published("dogs")


def test_paths_mean_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert absolute("mnist") == "mnist"
    assert absolute("./cats") == str(tmp_path / "cats")
    assert absolute("cats/dogs/") == str(tmp_path / "cats/dogs")
    assert absolute("cats.npz") == str(tmp_path / "cats.npz")
    assert absolute("~/cats") == "/home/me/cats"
    assert absolute("catz") == "catz"  # for the error message about the name


def test_names_are_what_load_knows() -> None:
    assert names() == ["cifar-10", "cifar-100", "emnist-letters", "fashion-mnist", "fashion-mnist-10k", "mnist"]
    assert {name for name in names() if published(name) is None} == {"fashion-mnist-10k"}
    assert load("fashion-mnist-10k").name == "fashion-mnist-10k"


def test_fashion_mnist_10k_is_the_published_test_set() -> None:
    source = load("fashion-mnist-10k", data_dir="/nowhere")
    assert source.x.shape == (10_000, 1, 28, 28)
    assert source.x.dtype == torch.uint8
    assert source.y.dtype == torch.int64
    assert source.y.bincount().tolist() == [1000] * 10
    assert (source.test_from, source.default_split, source.classes, source.shape) == (None, "8:1:1", 10, (1, 28, 28))
    assert (source.mean, source.std) == ((0.5071,), (0.2673,))
    # The first images are, as in the data set's documentation, an ankle boot, a pullover and two trousers.
    assert [source.class_names[label] for label in source.y[:4]] == ["ankle boot", "pullover", "trouser", "trouser"]


def test_fashion_mnist_10k_notices_other_content(monkeypatch: pytest.MonkeyPatch) -> None:
    good = files.gunzip

    def altered(*arguments: Any) -> bytes:
        raw = good(*arguments)
        return raw[:-1] + bytes([raw[-1] ^ 1])

    monkeypatch.setattr(files, "gunzip", altered)
    with pytest.raises(DataError, match=r"altered\. It is a part of Potluck: install the package again"):
        fashion_mnist_10k.load()


def test_the_licence_travels_with_the_files() -> None:
    folder = Path(fashion_mnist_10k.__file__).parents[1] / "files" / "fashion-mnist-10k"
    assert "Zalando" in (folder / "LICENSE").read_text()


GOOD = {
    "name": "made",
    "x": torch.zeros(4, 3, 2, 2, dtype=torch.uint8),
    "y": torch.tensor([0, 1, 0, 1]),
    "class_names": ("a", "b"),
    "mean": (0.0,) * 3,
    "std": (1.0,) * 3,
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": torch.zeros(4, 3, 2, 2)}, "uint8"),
        ({"x": torch.zeros(4, 12, dtype=torch.uint8)}, "uint8 of shape"),
        ({"y": torch.tensor([0, 1, 0])}, "one for each of the 4"),
        ({"y": torch.tensor([0, 1, 0, 2])}, "from 0 to 1"),
        ({"y": torch.tensor([0, 1, 0, -1])}, "from 0 to 1"),
        ({"mean": (0.0,)}, "3 channels"),
        ({"test_from": 4}, "official test set"),
    ],
)
def test_a_source_does_not_contradict_itself(wrong: dict[str, object], message: str) -> None:
    Source(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        Source(**(GOOD | wrong))  # type: ignore[arg-type]
