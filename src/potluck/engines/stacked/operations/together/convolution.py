"""Convolutions of several clients: by kernels made for them where these fit, and else one client after another."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight

from potluck.engines.stacked.operations.checks import agree, passes
from potluck.engines.stacked.operations.kernels import compiled, usable
from potluck.engines.stacked.operations.shapes import Shape, ends, is_small, through

_KERNELS = ("convolve", "input_gradient", "weight_gradient")


def _fitting(
    what: str, tensors: tuple[Tensor, Tensor, Tensor | None], size: torch.Size, filters: torch.Size, shape: Shape, *,
    relu: bool, biased: bool = True,
) -> Any:  # fmt: skip
    """The kernels, if they are made for a convolution.

    Args:
        what: Which of them is needed.
        tensors: What it is given; first, something of all samples of each client.
        size: Channels, height and width of an input.
        filters: Shape of those of one client.
        shape: What else it is.
        relu: Whether a ReLU follows.
        biased: Whether there is a bias.
    """
    like = tensors[0]
    kernels = usable(*tensors) if is_small(like.shape[1], size, filters, shape) else None
    given = size, filters, shape.padding, relu, biased, like.dtype, torch.backends.cudnn.allow_tf32
    return kernels if kernels is not None and passes(_right, what, _KERNELS, like.device, *given) else None


def _right(
    what: str, device: torch.device, size: torch.Size, filters: torch.Size, padding: tuple[int, int], relu: bool,
    biased: bool, dtype: torch.dtype, *_: object,
) -> bool:  # fmt: skip
    """Whether a kernel, as compiled for a convolution, gives what PyTorch does."""
    kernels, shape = compiled(), Shape(padding=padding)
    assert kernels is not None  # noqa: S101  (whoever asks has them)
    x, weight, bias, slope = random_operands(size, filters, padding, dtype, device)
    exact, filter_, shift, steep = (one.double() for one in (x, weight, bias, slope))
    out = _one_by_one(exact, filter_, shift if biased else None, shape, relu=relu)
    gate = out.to(dtype) if relu else None
    steep = through(steep, gate)
    if what == "convolve":
        return agree([kernels.convolve(x, weight, bias if biased else None, padding, relu=relu)], [out])
    if what == "input_gradient":
        found = kernels.input_gradient(slope, weight, padding, gate)
        return agree([found], [_input_gradients(steep, filter_, x.shape[1:], shape)])
    both = kernels.weight_gradient(x, slope, filters[2:], padding, gate)
    return agree(both, _weight_gradients(exact, steep, filters, shape))


def random_operands(
    size: torch.Size, filters: torch.Size, padding: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs, filters, biases and slopes of two clients, made up."""
    source = torch.Generator().manual_seed(0)
    after = ends(size[1:], filters[2:], padding)
    shapes = (2, 3, *size), (2, *filters), (2, filters[0]), (2, 3, filters[0], *after)
    x, weight, bias, slope = (torch.randn(one, generator=source).to(device, dtype) for one in shapes)
    return x, weight, bias, slope


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape, *, relu: bool = False) -> Tensor:
    """The convolution of each client, of ``x`` [clients, samples, channels, height, width]; its ReLU if ``relu``."""
    given = x.shape[2:], weight.shape[1:], shape
    kernels = _fitting("convolve", (x, weight, bias), *given, relu=relu, biased=bias is not None)
    if kernels is not None:
        result: Tensor = kernels.convolve(x, weight, bias, shape.padding, relu=relu)
        return result
    return _one_by_one(x, weight, bias, shape, relu=relu)


def _one_by_one(x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape, *, relu: bool) -> Tensor:
    biases = [None] * len(x) if bias is None else bias.unbind()
    each = zip(x.unbind(), weight.unbind(), biases, strict=True)
    result = torch.stack([F.conv2d(one, own, shift, *shape) for one, own, shift in each])
    return result.relu() if relu else result


def input_gradient(
    slope: Tensor, weight: Tensor, size: torch.Size, shape: Shape, gate: Tensor | None = None
) -> Tensor:  # fmt: skip
    """The gradient of each client by its input, whose shape is ``size`` for one client.

    Args:
        slope: The gradient by what the convolution gave, or by what a ReLU made of that.
        weight: The filters.
        size: Of the inputs of one client.
        shape: Of the convolution.
        gate: What the ReLU gave, if there was one.
    """
    given = size[1:], weight.shape[1:], shape
    kernels = _fitting("input_gradient", (slope, weight, gate), *given, relu=gate is not None)
    if kernels is not None:
        gradient: Tensor = kernels.input_gradient(slope, weight, shape.padding, gate)
        return gradient
    return _input_gradients(through(slope, gate), weight, size, shape)


def _input_gradients(slope: Tensor, weight: Tensor, size: torch.Size, shape: Shape) -> Tensor:
    each = zip(slope.unbind(), weight.unbind(), strict=True)
    return torch.stack([conv2d_input(size, own, one, *shape) for one, own in each])  # type: ignore[no-untyped-call]


def weight_gradient(
    x: Tensor, slope: Tensor, size: torch.Size, shape: Shape, gate: Tensor | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of each client by its filters, of which one client has ``size``, and by its bias."""
    kernels = _fitting("weight_gradient", (x, slope, gate), x.shape[2:], size, shape, relu=gate is not None)
    if kernels is not None:
        gradients: tuple[Tensor, Tensor] = kernels.weight_gradient(x, slope, size[2:], shape.padding, gate)
        return gradients
    return _weight_gradients(x, through(slope, gate), size, shape)


def _weight_gradients(x: Tensor, slope: Tensor, size: torch.Size, shape: Shape) -> tuple[Tensor, Tensor]:
    each = zip(x.unbind(), slope.unbind(), strict=True)
    filters = [conv2d_weight(own, size, one, *shape) for own, one in each]  # type: ignore[no-untyped-call]
    return torch.stack(filters), slope.sum((1, 3, 4))
