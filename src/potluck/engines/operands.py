"""Operations that stand in for PyTorch's, and what they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from potluck.models import layers


class StandIns(TorchFunctionMode):
    """While active, other functions stand in for some of PyTorch's, wherever a network calls them.

    Args:
        functions: What stands in for what. One that gives nothing leaves it to PyTorch's own.
    """

    def __init__(self, functions: Mapping[Callable[..., Any], Callable[..., Tensor | None]]) -> None:
        super().__init__()
        self._functions = functions

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Stand in for PyTorch's functions."""
        kwargs = kwargs or {}
        result = self._functions[func](*args, **kwargs) if func in self._functions else None
        if result is not None:
            return result
        if func in layers.STEPS:
            with self:  # for their parts
                return unwrap(func)(*args, **kwargs)
        return func(*args, **kwargs)


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


def window_of(
    kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[int, int] | None:  # fmt: skip
    """The window of a max-pooling by windows side by side, given as to ``max_pool2d``; none of any other.

    >>> window_of(2), window_of(3, 2), window_of((2, 3), [2, 3], ceil_mode=True)
    ((2, 2), None, None)
    """
    window = pair(kernel_size)
    apart = stride is None or stride == [] or pair(stride) == window
    plain = pair(padding) == (0, 0) and pair(dilation) == (1, 1) and not ceil_mode and not return_indices
    return window if apart and plain else None
