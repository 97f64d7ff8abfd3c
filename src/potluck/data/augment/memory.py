"""Memory for what is computed on the way."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_ALIGNED = 64


def in_one_piece(device: torch.device, *wanted: tuple[tuple[int, ...], torch.dtype]) -> list[Tensor]:
    """Tensors of the wanted shapes and types, with any content, cut from one piece of memory.

    On a CPU fresh memory takes longer to get than to fill. The C library keeps what is freed, unless it is more than
    twice the largest piece so far: so one large piece is kept, and many small ones go back to the system each time.

    >>> [tuple(part.shape) for part in in_one_piece(torch.device("cpu"), ((2, 3), torch.float32), ((5,), torch.int64))]
    [(2, 3), (5,)]
    """
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in wanted]
    padded = [-(-size // _ALIGNED) * _ALIGNED for size in sizes]
    parts = torch.split(torch.empty(sum(padded), dtype=torch.uint8, device=device), padded)
    return [
        part[:size].view(dtype).view(shape) for part, size, (shape, dtype) in zip(parts, sizes, wanted, strict=True)
    ]
