"""Samples, held once and shared: a client's data are rows of a source that many clients point into."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.errors import DataError


@dataclass(frozen=True)
class Examples:
    """Inputs and labels, or the ``rows`` of them that belong to one client.

    Ten thousand clients can share one source in memory; nothing is copied until a batch is taken.

    >>> source = torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 0, 1])
    >>> mine = Examples(*source, rows=torch.tensor([3, 1]))
    >>> len(mine), mine.labels.tolist(), mine.take(torch.tensor([0]))[0].tolist()
    (2, [1, 1], [[6.0, 7.0]])
    """

    x: Tensor
    y: Tensor
    rows: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse inputs and labels that do not belong together."""
        if len(self.x) != len(self.y):
            raise DataError(f"{len(self.x)} inputs come with {len(self.y)} labels: give one label per input.")
        if self.y.ndim != 1 or self.y.is_floating_point():
            raise DataError(
                f"labels must be a vector of whole numbers, not {self.y.dtype} of shape {tuple(self.y.shape)}."
            )

    def __len__(self) -> int:
        return len(self.y) if self.rows is None else len(self.rows)

    @property
    def labels(self) -> Tensor:
        """The labels of these samples."""
        return self.y if self.rows is None else self.y[self.rows]

    def take(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels at ``positions``, counted within these samples."""
        rows = positions if self.rows is None else self.rows[positions]
        return self.x[rows], self.y[rows].to(torch.int64)

    def only(self, positions: Tensor) -> Examples:
        """The samples at ``positions``, without copying any."""
        return Examples(self.x, self.y, positions if self.rows is None else self.rows[positions])

    def to(self, device: torch.device, moved: dict[int, Tensor] | None = None) -> Examples:
        """These samples on a device; ``moved`` remembers what was copied, so that clients go on sharing a source."""
        if self.y.device == device:
            return self
        moved = {} if moved is None else moved
        for tensor in (self.x, self.y):
            if id(tensor) not in moved:
                moved[id(tensor)] = tensor.to(device)
        rows = None if self.rows is None else self.rows.to(device)
        return Examples(moved[id(self.x)], moved[id(self.y)], rows)
