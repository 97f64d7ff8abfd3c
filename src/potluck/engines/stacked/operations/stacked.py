"""Convolutions of several clients: by kernels made for them where these fit, and else one client after another."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight

from potluck.engines.stacked.operations.kernels import compiled, usable

if TYPE_CHECKING:
    from potluck.engines.stacked.operations.convolution import Shape

_log = logging.getLogger("potluck")
_TOLERANCE = 0.05
"""Of the largest number; a kernel that is wrong is wrong by more, and half precision by less."""
_MOST = 32
"""Channels beyond which PyTorch's own convolutions are faster."""
_COUNTED = 1 << 26
"""Numbers of one client, of its inputs or outputs: of 32 times as many, kernels would lose count."""


def _fitting(like: Tensor, size: torch.Size, weight: torch.Size, shape: Shape) -> Any:
    """The kernels, if they are made for a convolution.

    Args:
        like: Any tensor of the same type and on the same device.
        size: Channels, height and width of an input.
        weight: Shape of the filters of one client.
        shape: What else it is.
    """
    outputs, channels, *kernel = weight
    plain = shape.stride == (1, 1) and shape.dilation == (1, 1) and shape.groups == 1
    narrow = all(pad < span for pad, span in zip(shape.padding, kernel, strict=True))
    few = max(outputs, channels) <= _MOST and like.shape[1] * like.shape[2:].numel() < _COUNTED
    kernels = usable(like) if few and plain and narrow else None
    return kernels if kernels is not None and _right(size, weight, shape, like.dtype, like.device) else None


@cache
def _right(size: torch.Size, filters: torch.Size, shape: Shape, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether kernels, as compiled for a convolution, give what PyTorch does; said aloud if they do not.

    Compilers of kernels are young, and what they make depends on every size.
    """
    kernels, source = compiled(), torch.Generator().manual_seed(0)
    assert kernels is not None  # noqa: S101  (whoever asks has them)
    ends = [
        edge + 2 * pad - span + 1 for edge, pad, span in zip(size[1:], shape.padding, filters[2:], strict=True)
    ]  # fmt: skip
    shapes = (2, 3, *size), (2, *filters), (2, filters[0]), (2, 3, filters[0], *ends)
    x, weight, bias, slope = (torch.randn(one, generator=source).to(device, dtype) for one in shapes)
    found = (
        kernels.convolve(x, weight, bias, shape.padding),
        kernels.input_gradient(slope, weight, shape.padding),
        *kernels.weight_gradient(x, slope, filters[2:], shape.padding),
    )
    x, weight, bias, slope = (one.double() for one in (x, weight, bias, slope))
    expected = (
        _one_by_one(x, weight, bias, shape),
        _input_gradients(slope, weight, x.shape[1:], shape),
        *_weight_gradients(x, slope, filters, shape),
    )
    right = all(
        float((one.double() - other).abs().max()) <= _TOLERANCE * float(other.abs().max())
        for one, other in zip(found, expected, strict=True)
    )
    if not right:
        _log.warning("kernels for filters of shape %s were compiled wrongly: PyTorch's own are used.", tuple(filters))
    return right


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape) -> Tensor:
    """The convolution of each client, of ``x`` [clients, samples, channels, height, width]."""
    kernels = _fitting(x, x.shape[2:], weight.shape[1:], shape)
    if kernels is not None:
        result: Tensor = kernels.convolve(x, weight, bias, shape.padding)
        return result
    return _one_by_one(x, weight, bias, shape)


def _one_by_one(x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape) -> Tensor:
    biases = [None] * len(x) if bias is None else bias.unbind()
    each = zip(x.unbind(), weight.unbind(), biases, strict=True)
    return torch.stack([F.conv2d(one, own, shift, *shape) for one, own, shift in each])


def input_gradient(slope: Tensor, weight: Tensor, size: torch.Size, shape: Shape) -> Tensor:
    """The gradient of each client by its input, whose shape is ``size`` for one client."""
    kernels = _fitting(slope, size[1:], weight.shape[1:], shape)
    if kernels is not None:
        gradient: Tensor = kernels.input_gradient(slope, weight, shape.padding)
        return gradient
    return _input_gradients(slope, weight, size, shape)


def _input_gradients(slope: Tensor, weight: Tensor, size: torch.Size, shape: Shape) -> Tensor:
    each = zip(slope.unbind(), weight.unbind(), strict=True)
    return torch.stack([conv2d_input(size, own, one, *shape) for one, own in each])  # type: ignore[no-untyped-call]


def weight_gradient(x: Tensor, slope: Tensor, size: torch.Size, shape: Shape) -> tuple[Tensor, Tensor]:
    """The gradients of each client by its filters, of which one client has ``size``, and by its bias."""
    kernels = _fitting(x, x.shape[2:], size, shape)
    if kernels is not None:
        gradients: tuple[Tensor, Tensor] = kernels.weight_gradient(x, slope, size[2:], shape.padding)
        return gradients
    return _weight_gradients(x, slope, size, shape)


def _weight_gradients(x: Tensor, slope: Tensor, size: torch.Size, shape: Shape) -> tuple[Tensor, Tensor]:
    each = zip(x.unbind(), slope.unbind(), strict=True)
    filters = [conv2d_weight(own, size, one, *shape) for own, one in each]  # type: ignore[no-untyped-call]
    return torch.stack(filters), slope.sum((1, 3, 4))
