"""Convolutions of several clients: by kernels made for them where these fit, and else one client after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight

from potluck.engines.stacked.operations.kernels import usable

if TYPE_CHECKING:
    from potluck.engines.stacked.operations.convolution import Shape

_MOST_INPUTS, _MOST_OUTPUTS = 1024, 64
"""Numbers that make one output, and channels of outputs, beyond which PyTorch's own convolutions are faster."""


def _fitting(x: Tensor, channels: int, kernel: tuple[int, ...], shape: Shape) -> Any:
    """The kernels, if they are made for this convolution."""
    small = x.shape[2] * kernel[0] * kernel[1] <= _MOST_INPUTS and channels <= _MOST_OUTPUTS
    plain = shape.stride == (1, 1) and shape.dilation == (1, 1) and shape.groups == 1
    narrow = all(pad < size for pad, size in zip(shape.padding, kernel, strict=True))
    return usable(x) if small and plain and narrow else None


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape) -> Tensor:
    """The convolution of each client, of ``x`` [clients, samples, channels, height, width]."""
    kernels = _fitting(x, weight.shape[1], weight.shape[3:], shape)
    if kernels is not None:
        result: Tensor = kernels.convolve(x, weight, bias, shape.padding)
        return result
    biases = [None] * len(x) if bias is None else bias.unbind()
    each = zip(x.unbind(), weight.unbind(), biases, strict=True)
    return torch.stack([F.conv2d(one, own, shift, *shape) for one, own, shift in each])


def input_gradient(slope: Tensor, weight: Tensor, size: torch.Size, shape: Shape) -> Tensor:
    """The gradient of each client by its input, whose shape is ``size`` for one client."""
    kernels = _fitting(slope, weight.shape[2], weight.shape[3:], shape)
    if kernels is not None:
        gradient: Tensor = kernels.input_gradient(slope, weight, shape.padding)
        return gradient
    each = zip(slope.unbind(), weight.unbind(), strict=True)
    return torch.stack([conv2d_input(size, own, one, *shape) for one, own in each])  # type: ignore[no-untyped-call]


def weight_gradient(x: Tensor, slope: Tensor, size: torch.Size, shape: Shape) -> tuple[Tensor, Tensor]:
    """The gradients of each client by its filters, of which one client has ``size``, and by its bias."""
    kernels = _fitting(x, size[0], size[2:], shape)
    if kernels is not None:
        gradients: tuple[Tensor, Tensor] = kernels.weight_gradient(x, slope, size[2:], shape.padding)
        return gradients
    each = zip(x.unbind(), slope.unbind(), strict=True)
    filters = [conv2d_weight(own, size, one, *shape) for own, one in each]  # type: ignore[no-untyped-call]
    return torch.stack(filters), slope.sum((1, 3, 4))
