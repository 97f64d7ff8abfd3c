"""What operations that stand in for PyTorch's are given."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Two numbers, for height and width, of one or of both.

    >>> pair(3), pair([1, 2]), pair((4,))
    ((3, 3), (1, 2), (4, 4))
    """
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[-1]))


def under_autocast(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Operands in the type that autocast has for them, which PyTorch sees to for its own operations alone."""
    kind = x.device.type
    if not torch.is_autocast_enabled(kind):
        return x, weight, bias
    low = torch.get_autocast_dtype(kind)
    return x.to(low), weight.to(low), None if bias is None else bias.to(low)
