"""The small model that every client holds besides its own, and that travels: CNN-5 in the papers."""

from __future__ import annotations

from torch import nn

from potluck import models
from potluck.contract import Task
from potluck.errors import ConfigError
from potluck.models._inputs import SMALLEST_FOR_TWO

SETTING = "the small model that all clients share, by name; auto: CNN-5, or an MLP where inputs are no such images"


def small_model(name: str, task: Task, width: int | None = None) -> dict[str, nn.Module]:
    """The small model cut into ``body`` and ``head``.

    Args:
        name: As ``potluck models`` lists them, or ``auto``.
        task: Gives the shape of inputs and the number of classes.
        width: Of its representation, where that must fit the clients'; by default its own.
    """
    if name == "auto":
        images = len(task.shape) == 3 and min(task.shape[1:]) >= SMALLEST_FOR_TWO
        name = "cnn-5" if images else f"mlp-{width or 64}"
    fixed = width is None or name.startswith("mlp-") or "@" in name
    parts = models.split(models.build(name if fixed else f"{name}@{width}", task.shape, task.classes), task.shape)
    found = models.representation_width(parts["head"])
    if width is not None and found != width:
        raise ConfigError(
            f"algorithm.small_model: {name} gives representations of {found} numbers, and the clients' own models "
            f"{width}: give mlp-{width}, or one whose width can be chosen, such as cnn-5."
        )
    return parts
