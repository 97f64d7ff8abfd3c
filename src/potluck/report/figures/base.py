"""What a figure is, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from potluck.errors import PotluckError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plot:
    """A figure, in one version or in several to choose from.

    Attributes:
        name: What its files are called.
        title: What it is of.
        caption: A sentence or two: what is shown, and how to read it.
        versions: The drawings by what sets them apart; a single one under the empty text.
    """

    name: str
    title: str
    caption: str
    versions: Mapping[str, Figure]


class NoFigureError(PotluckError):
    """A figure cannot be made of what there is; the message says why in one line."""
