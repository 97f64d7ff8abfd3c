"""Pictures of data: what is drawn where, looked up pixel by pixel."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from PIL import Image
from torch import Tensor

from potluck.data.sources import Source
from potluck.report import pictures
from potluck.report.pictures import balance_picture, partition_picture, sample_sheet

NAMES = ("cat", "dog", "bird")


def colours(picture: Image.Image) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for count, colour in picture.convert("RGB").getcolors(1 << 24) or []:
        assert isinstance(colour, tuple)
        found[colour] = count
    return found


def cells(picture: Image.Image, counts: Tensor) -> list[list[tuple[int, ...]]]:
    """The colours near the corner of each cell of a heat map whose cells are 44 by 28 pixels."""
    left = next(
        x for x in range(picture.width) if picture.getpixel((x, 100)) not in ((255, 255, 255), *_text(picture, x))
    )
    return [
        [_pixel(picture, (left + 44 * client + 2, 90 + 28 * label + 2)) for label in range(counts.shape[1])]
        for client in range(counts.shape[0])
    ]


def _text(picture: Image.Image, x: int) -> list[tuple[int, ...]]:
    """Whatever stands in this column at the height of a label, if the cells have not begun."""
    column = [_pixel(picture, (x, y)) for y in range(92, 115)]
    return column if len(set(column)) > 1 else []


def _pixel(picture: Image.Image, at: tuple[int, int]) -> tuple[int, ...]:
    value = picture.getpixel(at)
    assert isinstance(value, tuple)
    return value


def test_the_more_samples_the_darker() -> None:
    counts = torch.tensor([[0, 1, 100], [50, 0, 25]])
    drawn = cells(partition_picture(counts, NAMES, "made"), counts)
    light = [[sum(colour) for colour in row] for row in drawn]
    assert drawn[0][0] == drawn[1][1] == pictures._NONE
    assert drawn[0][2] == pictures._SCALE[-1]
    assert light[0][2] < light[1][0] < light[1][2] < light[0][1] < sum(pictures._NONE)


def test_every_client_and_class_has_its_cell() -> None:
    counts = (torch.arange(7 * 5).reshape(7, 5) % 2) * 9
    picture = partition_picture(counts, tuple("abcde"), "made")
    drawn = cells(picture, counts)
    for client in range(7):
        for label in range(5):
            assert (drawn[client][label] == pictures._SCALE[-1]) == bool(counts[client, label])


@pytest.mark.parametrize(("clients", "classes"), [(1, 1), (1, 100), (100, 10), (100, 100), (400, 2), (10_000, 10)])
def test_pictures_of_any_size_can_be_looked_at(clients: int, classes: int) -> None:
    counts = torch.randint(0, 50, (clients, classes), generator=torch.Generator().manual_seed(0))
    picture = partition_picture(counts, tuple(f"class {label}" for label in range(classes)), "made")
    assert 100 < picture.width < 1500
    assert 100 < picture.height < 2000
    assert len(colours(picture)) > 5


def test_thousands_of_classes() -> None:
    classes = 5000
    names = tuple(f"class {label}" for label in range(classes))
    counts = torch.ones(3, classes, dtype=torch.int64)
    x = torch.zeros(classes, 1, 28, 28, dtype=torch.uint8)
    source = Source("made", x, torch.arange(classes), names, (0.5,), (0.5,))
    for picture in (
        partition_picture(counts, names, "made"),
        balance_picture({"train": counts.sum(0)}, names, "made"),
        sample_sheet(source, "made"),
    ):
        assert picture.width < 4000
        assert picture.height < 4000


def test_nothing_at_all_and_odd_names() -> None:
    partition_picture(torch.zeros(3, 2, dtype=torch.int64), ("\x00\n", "名" * 300), "a title" * 50)
    empty = {"train": torch.zeros(2, dtype=torch.int64), "test": torch.tensor([1, 0])}
    balance_picture(empty, ("", "b"), "")


def test_letters_that_the_font_does_not_have() -> None:
    font = pictures._font(13)
    missing = bytes(font.getmask("\uffff"))
    names = ("Große Äpfel", "naïve café", "猫", "犬 dog", "what?", "ﬁne…")
    drawn = pictures._labels(names)
    assert drawn == ["Grosse Apfel", "naive cafe", "2: ?", "3: ? dog", "what?", "fine..."]
    assert all(bytes(font.getmask(letter)) != missing for text in drawn for letter in text)
    # A title is not always of such letters, either.
    assert pictures._drawable("Bücher") == "Bucher"


def test_bars_are_as_long_as_classes_are_large() -> None:
    counts = {
        "train": torch.tensor([80, 40, 0]),
        "validation": torch.zeros(3, dtype=torch.int64),
        "test": torch.tensor([20, 0, 10]),
    }
    picture = balance_picture(counts, NAMES, "made")
    found = colours(picture)
    legend = 13 * 13
    rows = round((found[pictures._POOLS["train"]] - legend) / (640 * 1.2))  # 80 + 40 of 100
    assert 15 < rows < 26
    assert abs((found[pictures._POOLS["test"]] - legend) / rows - 640 * 0.3) < 12
    assert pictures._POOLS["validation"] not in found  # nor in the legend


def test_images_are_shown_as_they_are() -> None:
    x = torch.zeros(6, 3, 8, 8, dtype=torch.uint8)
    for row in range(6):
        x[row] = torch.tensor([10 * row + 5, 200, 100], dtype=torch.uint8).view(3, 1, 1)
    source = Source("made", x, torch.tensor([0, 1, 0, 1, 0, 1]), ("a", "b"), (0.5,) * 3, (0.5,) * 3)
    found = colours(sample_sheet(source, "made"))
    for row in range(6):
        assert found[10 * row + 5, 200, 100] == 40 * 40  # every pixel is a square of five
    grey = Source("made", x[:, :1].contiguous(), source.y, ("a", "b"), (0.5,), (0.5,))
    assert colours(sample_sheet(grey, "made"))[15, 15, 15] >= 40 * 40


@pytest.mark.parametrize(
    ("classes", "shape"), [(2, (1, 28, 28)), (26, (1, 28, 28)), (100, (3, 32, 32)), (3, (3, 300, 200)), (2, (4, 1, 1))]
)
def test_sheets_of_any_size(classes: int, shape: tuple[int, int, int]) -> None:
    y = torch.arange(classes).repeat(3)
    x = torch.randint(0, 256, (len(y), *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    source = Source("made", x, y, tuple(map(str, range(classes))), (0.5,) * shape[0], (0.5,) * shape[0])
    sheet = sample_sheet(source, "made")
    assert sheet.width < 1500
    assert sheet.height < 1500
