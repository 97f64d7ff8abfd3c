"""Puts our operations in the place of PyTorch's, wherever a network calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from potluck.engines.operands import pair, under_autocast
from potluck.engines.stacked.operations.convolution import Convolution, Shape
from potluck.engines.stacked.operations.pooling import MaxPooling

Pair = int | Sequence[int]


class Operations(TorchFunctionMode):
    """While active, convolutions and max-pooling of images compute what they do in a way that stacks well.

    What they give may have its channels last in memory. So where a network asks for a view, it is given a copy if
    there can be none.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Stand in for some functions."""
        kwargs = kwargs or {}
        result = _OURS[func](*args, **kwargs) if func in _OURS else None
        return func(*args, **kwargs) if result is None else result


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


def _pooled(
    input: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor | None:  # fmt: skip
    window = pair(kernel_size)
    apart = stride is None or stride == [] or pair(stride) == window
    plain = pair(padding) == (0, 0) and pair(dilation) == (1, 1) and not ceil_mode and not return_indices
    if not apart or not plain or input.ndim != 4:
        return None
    result: Tensor = MaxPooling.apply(input, window)  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


def _viewed(input: Tensor, *shape: Any) -> Tensor | None:
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return input.reshape(sizes) if all(isinstance(size, int) for size in sizes) else None


_OURS: dict[Callable[..., Any], Callable[..., Tensor | None]] = {
    torch.conv2d: _convolved, torch.max_pool2d: _pooled, F.max_pool2d: _pooled,
    torch.Tensor.view: _viewed,
}  # fmt: skip
"""What stands in for what; none of them if it gives nothing."""
