"""Puts our operations in the place of PyTorch's, wherever a network calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._functorch import TransformType, get_interpreter_stack

from potluck.contract.apart import is_as_its_class
from potluck.engines.operands import StandIns, pair, under_autocast, window_of
from potluck.engines.stacked.operations.blocks import Block
from potluck.engines.stacked.operations.convolution import Convolution
from potluck.engines.stacked.operations.entropy import CrossEntropy, covers
from potluck.engines.stacked.operations.linear import Linear
from potluck.engines.stacked.operations.pooling import MaxPooling
from potluck.engines.stacked.operations.shapes import Shape
from potluck.engines.stacked.operations.together.blocks import fits
from potluck.models import layers

Pair = int | Sequence[int]


class Operations(StandIns):
    """While active, layers and losses compute what they do in a way that stacks well.

    What they give may have its channels last in memory. So where a network asks for a view, it is given a copy if
    there can be none.
    """

    def __init__(self) -> None:
        derived: dict[Callable[..., Any], Callable[..., Tensor | None]] = {
            torch.conv2d: _convolved, torch.max_pool2d: _pooled, F.max_pool2d: _pooled,
            layers.activated: _activated, layers.pooled: _block, F.linear: _linear, F.cross_entropy: _entropy,
        }  # fmt: skip
        views: dict[Callable[..., Any], Callable[..., Tensor | None]] = {
            torch.Tensor.view: _viewed,
            torch.Tensor.view_as: _viewed_as,
        }
        super().__init__({func: _once(ours) for func, ours in derived.items()} | views)


def _once(stand_in: Callable[..., Tensor | None]) -> Callable[..., Tensor | None]:
    """A function that stands in for another, as long as its gradient is all that anybody asks for."""

    @wraps(stand_in)
    def guarded(*given: Any, **more: Any) -> Tensor | None:
        return stand_in(*given, **more) if derived_once() else None

    return guarded


def derived_once() -> bool:
    """Whether nobody asks for the gradient of a gradient, or for one forwards, which our operations do not have."""
    kinds = [one.key() for one in get_interpreter_stack() or ()]
    return kinds.count(TransformType.Grad) <= 1 and TransformType.Jvp not in kinds


def _convolved(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Pair = 1, padding: Pair | str = 0,
    dilation: Pair = 1, groups: int = 1, *, relu: bool = False,
) -> Tensor | None:  # fmt: skip
    if input.ndim != 4 or isinstance(padding, str):
        return None
    input, weight, bias = under_autocast(input, weight, bias)
    shape = Shape(pair(stride), pair(padding), pair(dilation), groups)
    result: Tensor = Convolution.apply(input, weight, bias, shape, relu)  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, relu: bool = False) -> Tensor | None:
    if input.ndim != 2 or weight.ndim != 2:
        return None
    input, weight, bias = under_autocast(input, weight, bias)
    result: Tensor = Linear.apply(input, weight, bias, relu)  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


def _activated(layer: nn.Conv2d | nn.Linear, x: Tensor) -> Tensor | None:
    if not _is_plain(layer):
        return None
    if isinstance(layer, nn.Linear):
        return _linear(x, layer.weight, layer.bias, relu=True)
    given = layer.stride, layer.padding, layer.dilation, layer.groups
    return _convolved(x, layer.weight, layer.bias, *given, relu=True)


def _block(conv: nn.Conv2d, x: Tensor) -> Tensor | None:
    if not _is_plain(conv) or x.ndim != 4 or isinstance(conv.padding, str) or conv.bias is None:
        return None
    x, weight, bias = under_autocast(x, conv.weight, conv.bias)
    shape = Shape(pair(conv.stride), pair(conv.padding), pair(conv.dilation), conv.groups)
    if not fits(x, weight, shape):
        return None
    result: Tensor = Block.apply(x, weight, bias, shape.padding)[0]  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


def _is_plain(layer: nn.Module) -> bool:
    """Whether a layer does nothing but convolve, or multiply."""
    known = type(layer) is nn.Linear or (type(layer) is nn.Conv2d and layer.padding_mode == "zeros")
    return known and is_as_its_class(layer)


def _pooled(input: Tensor, *given: Any, **more: Any) -> Tensor | None:
    window = window_of(*given, **more)
    if window is None or input.ndim != 4:
        return None
    result: Tensor = MaxPooling.apply(input, window)  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


def _entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor | None:  # fmt: skip
    plain = weight is None and size_average is None and reduce is None and not label_smoothing
    if not plain or ignore_index != -100 or reduction != "none" or not covers(input, target):
        return None
    logits = input if input.dtype == torch.float64 else input.float()
    result: Tensor = CrossEntropy.apply(logits, target)  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


def _viewed(input: Tensor, *shape: Any, size: Any = None, dtype: torch.dtype | None = None) -> Tensor | None:
    shape = (size,) if size is not None else shape
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return input.reshape(sizes) if dtype is None and all(isinstance(one, int) for one in sizes) else None


def _viewed_as(input: Tensor, other: Tensor) -> Tensor:
    return input.reshape(other.shape)
