"""Where each weight of a client lies in one row of memory: a client is then moved in one go, and steps as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_ALIGNED = 16
"""Bytes: what GPUs read at once."""


@dataclass(frozen=True)
class Field:
    """One tensor within a row: its first byte, the one after its last, its shape and type."""

    start: int
    stop: int
    shape: torch.Size
    dtype: torch.dtype

    def of(self, rows: Tensor) -> Tensor:
        """This tensor of each of some rows, or of one."""
        return rows[..., self.start : self.stop].view(self.dtype).view((*rows.shape[:-1], *self.shape))


@dataclass(frozen=True)
class Run:
    """Tensors of one type that lie one behind the other, as if they were one.

    Attributes:
        fields: Each of them, by its path.
    """

    fields: Mapping[str, Field]

    @property
    def dtype(self) -> torch.dtype:
        """Of all of them."""
        return next(iter(self.fields.values())).dtype

    def of(self, rows: Tensor) -> Tensor:
        """All of them of each of some rows, [rows, numbers]; with what is left free between them."""
        each = list(self.fields.values())
        return rows[:, each[0].start : each[-1].stop].view(self.dtype)

    def joined(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Tensors of the same paths and shapes for each of some rows, in the same order; zeros are in between."""
        parts, end = [], None
        for path, field in self.fields.items():
            tensor = tensors[path]
            if end is not None and field.start > end:
                parts.append(tensor.new_zeros(len(tensor), (field.start - end) // field.dtype.itemsize))
            parts.append(tensor.reshape(len(tensor), -1).to(field.dtype))
            end = field.stop
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class Layout:
    """The row of one client.

    Args:
        tensors: What it holds, by path.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.fields: dict[str, Field] = {}
        end = 0
        for path, tensor in tensors.items():
            stop = end + tensor.numel() * tensor.element_size()
            self.fields[path] = Field(end, stop, tensor.shape, tensor.dtype)
            end = -(-stop // _ALIGNED) * _ALIGNED
        self.bytes = end

    def rows(self, count: int, device: torch.device) -> Tensor:
        """Memory for so many clients, all zeros."""
        return torch.zeros(count, self.bytes, dtype=torch.uint8, device=device)

    def tidy(self, rows: Tensor) -> None:
        """Set what is between the tensors to zeros: where they are taken for one, it is part of it."""
        ends = [0, *(field.stop for field in self.fields.values())]
        starts = [*(field.start for field in self.fields.values()), self.bytes]
        for end, start in zip(ends, starts, strict=True):
            if end < start:
                rows[:, end:start] = 0

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Every tensor, of a row or of several."""
        return {path: field.of(rows) for path, field in self.fields.items()}

    def runs(self, paths: Sequence[str], *, apart: bool = False) -> list[Run]:
        """Tensors as few runs; each by itself if ``apart``."""
        runs: list[dict[str, Field]] = []
        for path in sorted(paths, key=lambda one: self.fields[one].start):
            field = self.fields[path]
            last = next(reversed(runs[-1].values())) if runs else None
            if apart or last is None or last.dtype != field.dtype or field.start - last.stop >= _ALIGNED:
                runs.append({})
            runs[-1][path] = field
        return [Run(fields) for fields in runs]
