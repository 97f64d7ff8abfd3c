"""Pictures of data, drawn with Pillow alone: who has which classes, how large classes are, what images look like."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from potluck.data.sources import Source
from potluck.report.format import short
from potluck.run.files import write_bytes

_INK, _PALE, _PAPER, _NONE = (33, 37, 41), (108, 117, 125), (255, 255, 255), (245, 245, 243)
_SCALE = ((204, 222, 241), (145, 191, 219), (66, 146, 198), (8, 81, 156), (8, 48, 107))
"""Colours from few to many."""
_POOLS = {"train": (33, 113, 181), "validation": (253, 174, 107), "test": (116, 196, 118)}
_MARGIN = 24
_MOST_CLIENTS, _MOST_CLASSES = 400, 200
"""More clients or classes than this are not drawn: nobody could tell them apart, or find one."""


@dataclass
class _Canvas:
    """A white sheet to draw on, with text in several sizes."""

    width: int
    height: int

    def __post_init__(self) -> None:
        self.image = Image.new("RGB", (self.width, self.height), _PAPER)
        self.pen = ImageDraw.Draw(self.image)

    def text(
        self, at: tuple[float, float], text: str, size: int = 13, anchor: str = "lm", colour: tuple[int, ...] = _INK
    ) -> None:
        self.pen.text(at, _drawable(text), font=_font(size), anchor=anchor, fill=colour)

    def title(self, text: str, under: str) -> None:
        self.text((_MARGIN, _MARGIN + 6), text, size=18)
        self.text((_MARGIN, _MARGIN + 30), under, size=13, colour=_PALE)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _width(texts: Sequence[str], size: int = 13) -> int:
    """The width of the widest text, in pixels."""
    return int(max((_font(size).getlength(text) for text in texts), default=0)) + 1


def _drawable(text: str) -> str:
    """The text in letters that the font has, which are those of ASCII: without accents, and ``?`` for all others."""
    return "".join(
        letter if letter.isascii() else _ascii(letter) or _ascii(letter.casefold()) or "?" for letter in text
    )


def _ascii(text: str) -> str:
    return "".join(part for part in unicodedata.normalize("NFKD", text) if part.isascii())


def _labels(class_names: Sequence[str]) -> list[str]:
    """What stands beside the classes; one whose name cannot be drawn is to be known by its number."""
    drawn = [_drawable(name) for name in class_names]
    return [
        short(text if text.count("?") == name.count("?") else f"{number}: {text}")
        for number, (name, text) in enumerate(zip(class_names, drawn, strict=True))
    ]


def _names(class_names: Sequence[str]) -> list[str]:
    """What stands beside the classes that are drawn."""
    return _labels(class_names[:_MOST_CLASSES])


def _first(shown: int, count: int, what: str) -> str:
    """How many of them are drawn.

    >>> _first(10, 10, "clients"), _first(400, 10_000, "clients")
    ('10 clients', 'the first 400 of 10,000 clients')
    """
    return f"{count:,} {what}" if shown == count else f"the first {shown:,} of {count:,} {what}"


def write_picture(path: Path, picture: Image.Image) -> None:
    """Write a PNG file, all of it or nothing."""
    content = BytesIO()
    picture.save(content, "PNG", optimize=True)
    write_bytes(path, content.getvalue(), durable=False)


# ---- who has what -------------------------------------------------------------------------------------------------


def partition_picture(counts: Tensor, class_names: Sequence[str], title: str) -> Image.Image:
    """A heat map: a column per client, a row per class, the darker the more samples.

    Args:
        counts: Samples of each class at each client, of shape [clients, classes].
        class_names: The classes.
        title: What it is of.
    """
    clients, classes = counts.shape
    shown = counts[:_MOST_CLIENTS, :_MOST_CLASSES]
    names = _names(class_names)
    wide = max(2, min(44, 1000 // len(shown)))
    tall = max(14, min(28, 640 // len(names)))
    left, top = _MARGIN + _width(names) + 10, _MARGIN + 66
    right, bottom = left + wide * len(shown), top + tall * len(names)
    sheet = _Canvas(max(right + 110, _MARGIN * 2 + _width([title], 18)), bottom + 58)
    of_classes, at_clients = _first(len(names), classes, "classes"), _first(len(shown), clients, "clients")
    sheet.title(title, f"training samples of {of_classes} at {at_clients}")
    most = max(1, int(counts.max()))
    gap = 1 if wide > 4 else 0
    for client, row in enumerate(shown.tolist()):
        for label, count in enumerate(row):
            x, y = left + wide * client, top + tall * label
            colour = _shade(count / most) if count else _NONE
            sheet.pen.rectangle((x, y, x + wide - 1 - gap, y + tall - 2), fill=colour)
            if count and wide >= 32 and tall >= 16:
                ink = _PAPER if sum(colour) < 420 else _INK
                sheet.text((x + wide / 2 - 0.5, y + tall / 2 - 0.5), str(count), size=11, anchor="mm", colour=ink)
    for label, name in enumerate(names):
        sheet.text((left - 8, top + tall * (label + 0.5)), name, size=12, anchor="rm")
    for client in _ticks(len(shown), wide):
        sheet.text((left + wide * (client + 0.5), bottom + 12), str(client), size=12, anchor="mm")
    sheet.text(((left + right) / 2, bottom + 34), "client", anchor="mm", colour=_PALE)
    _legend(sheet, (right + 24, top), min(200, bottom - top), most)
    return sheet.image


def _shade(share: float) -> tuple[int, int, int]:
    """A colour for a share from 0 to 1; by its root, for small counts to be told from none."""
    place = share**0.5 * (len(_SCALE) - 1)
    low = min(int(place), len(_SCALE) - 2)
    red, green, blue = (round(a + (b - a) * (place - low)) for a, b in zip(_SCALE[low], _SCALE[low + 1], strict=True))
    return red, green, blue


def _ticks(count: int, pixels: int) -> range:
    """Which of so many columns, each of so many pixels, get a number."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step * pixels >= 24)
    return range(0, count, step)


def _legend(sheet: _Canvas, at: tuple[int, int], height: int, most: int) -> None:
    x, y = at
    for line in range(height):
        sheet.pen.line((x, y + line, x + 14, y + line), fill=_shade(1 - line / height))
    marks = {0.0: most, 0.5: most // 2, 1.0: 1} if most > 2 else {0.0: most}
    for place, count in marks.items():
        # Where its colour is: colours go by the root.
        sheet.text((x + 20, y + height * (1 - (count / most) ** 0.5) if place else y + 4), f"{count:,}", size=12)
    sheet.pen.rectangle((x, y + height + 10, x + 14, y + height + 24), fill=_NONE)
    sheet.text((x + 20, y + height + 17), "none", size=12)


# ---- how large classes are ----------------------------------------------------------------------------------------


def balance_picture(counts: Mapping[str, Tensor], class_names: Sequence[str], title: str) -> Image.Image:
    """Bars: how many samples of each class there are to train, validate and test on.

    Args:
        counts: For each pool the samples of each class.
        class_names: The classes.
        title: What it is of.
    """
    pools = {pool: values.tolist() for pool, values in counts.items() if int(values.sum())}
    totals = [sum(values) for values in zip(*pools.values(), strict=True)]
    names = _names(class_names)
    tall = max(14, min(26, 640 // len(names)))
    left, top, length = _MARGIN + _width(names) + 10, _MARGIN + 66, 640
    sheet = _Canvas(max(left + length + 90, _MARGIN * 2 + _width([title], 18)), top + tall * len(names) + _MARGIN)
    sheet.title(title, f"{sum(totals):,} samples, {_first(len(names), len(totals), 'classes')}")
    x = sheet.width - _MARGIN
    for pool in reversed(pools):
        words = f"{pool} {sum(pools[pool]):,}"
        x -= _width([words]) + 34
        sheet.pen.rectangle((x, _MARGIN + 24, x + 12, _MARGIN + 36), fill=_POOLS[pool])
        sheet.text((x + 18, _MARGIN + 30), words)
    for row, (name, total) in enumerate(zip(names, totals, strict=False)):
        start, middle = float(left), top + tall * (row + 0.5)
        sheet.text((left - 8, middle), name, size=12, anchor="rm")
        for pool, values in pools.items():
            end = start + length * values[row] / max(1, *totals)
            if values[row]:
                sheet.pen.rectangle(
                    (start, middle - tall * 0.36, max(start, end - 1), middle + tall * 0.36), fill=_POOLS[pool]
                )
            start = end
        sheet.text((start + 8, middle), f"{total:,}", size=12, colour=_PALE)
    return sheet.image


# ---- what images look like ----------------------------------------------------------------------------------------


def sample_sheet(source: Source, title: str) -> Image.Image:
    """The first images of every class, as they are in the data set, with its name."""
    names = _names(source.class_names)
    per_column = 26
    columns = -(-len(names) // per_column)
    each = {1: 12, 2: 8}.get(columns, 5)
    height, width = source.shape[1:]
    factor = max(1, round(40 / max(height, width)))
    shrunk = min(1.0, 96 / max(height, width))
    cell = (max(1, round(width * factor * shrunk)), max(1, round(height * factor * shrunk)))
    label = _width(names) + 14
    block = label + each * (cell[0] + 3) + 26
    top, rows = _MARGIN + 62, min(per_column, len(names))
    sheet = _Canvas(
        max(2 * _MARGIN + columns * block - 26, 2 * _MARGIN + _width([title], 18)), top + rows * (cell[1] + 3) + _MARGIN
    )
    sheet.title(title, f"the first {each} of each of {_first(len(names), source.classes, 'classes')}")
    for number, name in enumerate(names):
        column, row = divmod(number, per_column)
        x, y = _MARGIN + column * block, top + row * (cell[1] + 3)
        sheet.text((x + label - 10, y + cell[1] / 2), name, size=12, anchor="rm")
        for index, image in enumerate(source.x[torch.nonzero(source.y == number).flatten()[:each]]):
            picture = _picture(image).resize(
                cell, Image.Resampling.NEAREST if factor > 1 else Image.Resampling.BILINEAR
            )
            sheet.image.paste(picture, (x + label + index * (cell[0] + 3), y))
    return sheet.image


def _picture(image: Tensor) -> Image.Image:
    """One image [channels, height, width] of bytes; what has neither one channel nor three is shown by its first."""
    if len(image) == 3:
        return Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
    return Image.fromarray(image[0].contiguous().numpy())
