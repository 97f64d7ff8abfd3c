"""Puts our operations in the place of PyTorch's, wherever a network calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.engines.operands import StandIns, pair, under_autocast, window_of
from potluck.engines.stacked.operations.convolution import Convolution, Shape
from potluck.engines.stacked.operations.pooling import MaxPooling

Pair = int | Sequence[int]


class Operations(StandIns):
    """While active, convolutions and max-pooling of images compute what they do in a way that stacks well.

    What they give may have its channels last in memory. So where a network asks for a view, it is given a copy if
    there can be none.
    """

    def __init__(self) -> None:
        super().__init__({
            torch.conv2d: _convolved, torch.max_pool2d: _pooled, F.max_pool2d: _pooled,
            torch.Tensor.view: _viewed, torch.Tensor.view_as: _viewed_as,
        })  # fmt: skip


def _convolved(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair | str = 0,
    dilation: Pair = 1, groups: int = 1,
) -> Tensor | None:  # fmt: skip
    if input.ndim != 4 or isinstance(padding, str):
        return None
    input, weight, bias = under_autocast(input, weight, bias)
    shape = Shape(pair(stride), pair(padding), pair(dilation), groups)
    result: Tensor = Convolution.apply(input, weight, bias, shape)  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


def _pooled(input: Tensor, *given: Any, **more: Any) -> Tensor | None:
    window = window_of(*given, **more)
    if window is None or input.ndim != 4:
        return None
    result: Tensor = MaxPooling.apply(input, window)  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


def _viewed(input: Tensor, *shape: Any, size: Any = None, dtype: torch.dtype | None = None) -> Tensor | None:
    shape = (size,) if size is not None else shape
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return input.reshape(sizes) if dtype is None and all(isinstance(one, int) for one in sizes) else None


def _viewed_as(input: Tensor, other: Tensor) -> Tensor:
    return input.reshape(other.shape)
