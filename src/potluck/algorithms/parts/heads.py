"""The head that all clients share: one linear layer from the common representation to the classes."""

from __future__ import annotations

from torch import nn

from potluck.contract import Task


def common_head(task: Task) -> dict[str, nn.Module]:
    """The head that fits every client's body, as the network ``head``."""
    return {"head": nn.Linear(task.common_width(), task.classes)}
