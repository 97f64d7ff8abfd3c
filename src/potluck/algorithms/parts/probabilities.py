"""Soft outputs that arrive: one probability for each class."""

from __future__ import annotations

from torch import Tensor

from potluck.errors import PayloadError

_ROUNDING = 1e-2


def check_probabilities(client: int, name: str, values: Tensor) -> None:
    """Refuse rows that are not probabilities: none below 0, together 1, but for rounding."""
    if bool((values < 0).any() | ((values.sum(-1) - 1).abs() > _ROUNDING).any()):
        raise PayloadError(f"client {client} sent {name!r} that are no probabilities: below 0, or not 1 in sum.")
