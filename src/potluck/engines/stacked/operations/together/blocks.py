"""Convolutions with max-pooling and ReLU of several clients: by kernels made for them, and else in their parts."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.engines.stacked.operations.checks import agree, passes
from potluck.engines.stacked.operations.kernels import compiled, suitable, usable
from potluck.engines.stacked.operations.kernels.memory import is_last
from potluck.engines.stacked.operations.shapes import CUT, Shape, ends, is_small
from potluck.engines.stacked.operations.together.convolution import (
    convolve,
    input_gradient,
    random_operands,
    weight_gradient,
)

Padding = tuple[int, int]

_KERNELS = ("convolve_and_pool", "pooled_input_gradient", "pooled_weight_gradient")


def fits(x: Tensor, weight: Tensor, shape: Shape) -> bool:
    """Whether kernels are made for the blocks of one client, whose convolution has filters of shape ``weight``."""
    small = is_small(x.shape[0], x.shape[1:], weight.shape, shape)
    windows = min(ends(x.shape[2:], weight.shape[2:], shape.padding)) > 1
    # Kernels are made for outputs that lie side by side.
    return suitable(x) is not None and small and windows and is_last(weight.shape[0])


def _kernels(
    what: str, tensors: tuple[Tensor, ...], size: torch.Size, filters: torch.Size, padding: Padding
) -> Any:  # fmt: skip
    """The kernels, if they work on these tensors and the one that is needed gives what PyTorch does."""
    kernels, like = usable(*tensors), tensors[0]
    given = size, filters, padding, like.dtype, torch.backends.cudnn.allow_tf32
    return kernels if kernels is not None and passes(_right, what, _KERNELS, like.device, *given) else None


def _right(
    what: str, device: torch.device, size: torch.Size, filters: torch.Size, padding: Padding, dtype: torch.dtype,
    *_: object,
) -> bool:  # fmt: skip
    """Whether a kernel, as compiled for these blocks, gives what PyTorch does."""
    kernels = compiled()
    assert kernels is not None  # noqa: S101  (whoever asks has them)
    x, weight, bias, slope = random_operands(size, filters, padding, dtype, device)
    slope = slope[..., : slope.shape[3] // 2 * 2 : 2, : slope.shape[4] // 2 * 2 : 2]
    exact, filter_, shift, steep = (one.double() for one in (x, weight, bias, slope))
    each = _windows(convolve(exact, filter_, shift, Shape(padding=padding)))
    out, which = _largest(each)
    if what == "convolve_and_pool":
        found, chosen = kernels.convolve_and_pool(x, weight, bias, padding)
        # Which of two numbers is larger may be a matter of rounding: it has to be one of the largest.
        held = each.gather(0, chosen.long().clamp(max=3).unsqueeze(0)).squeeze(0).relu()
        return agree([found, torch.where(chosen == CUT, 0, held)], [out, out])
    if what == "pooled_input_gradient":
        found = kernels.pooled_input_gradient(slope, which, weight, size, padding)
        return agree([found], [_input_gradient(steep, which, filter_, size, padding)])
    both = kernels.pooled_weight_gradient(x, slope, which, filters[2:], padding)
    return agree(both, _weight_gradient(exact, steep, which, filters, padding))


def _windows(x: Tensor) -> Tensor:
    """The four numbers of every window, in front."""
    high, wide = (edge // 2 * 2 for edge in x.shape[3:])
    return torch.stack([x[..., k // 2 : high : 2, k % 2 : wide : 2] for k in range(4)])


def pooled(x: Tensor, weight: Tensor, bias: Tensor, padding: Padding) -> tuple[Tensor, Tensor]:
    """ReLU of the largest number of every window, of ``x`` [clients, samples, channels, height, width], and which."""
    kernels = _kernels("convolve_and_pool", (x, weight, bias), x.shape[2:], weight.shape[1:], padding)
    if kernels is not None:
        found: tuple[Tensor, Tensor] = kernels.convolve_and_pool(x, weight, bias, padding)
        return found
    return _largest(_windows(convolve(x, weight, bias, Shape(padding=padding))))


def _largest(each: Tensor) -> tuple[Tensor, Tensor]:
    """ReLU of the largest of the four numbers of every window, and which of them it is."""
    most, which = each.max(0)
    return F.relu(most), torch.where(most <= 0, CUT, which).to(torch.uint8)


def _spread(slope: Tensor, which: Tensor, weight: torch.Size, size: torch.Size, padding: Padding) -> Tensor:
    """The slope of each window where its largest number was, and zeros elsewhere."""
    out = slope.new_zeros(*slope.shape[:3], *ends(size[1:], weight[3:], padding))
    high, wide = (2 * edge for edge in slope.shape[3:])
    for k in range(4):
        out[..., k // 2 : high : 2, k % 2 : wide : 2] = torch.where(which == k, slope, 0)
    return out


def pooled_input_gradient(slope: Tensor, which: Tensor, weight: Tensor, size: torch.Size, padding: Padding) -> Tensor:
    """The gradient of each client by its inputs, of which one has ``size``."""
    kernels = _kernels("pooled_input_gradient", (slope, which, weight), size, weight.shape[1:], padding)
    if kernels is not None:
        gradient: Tensor = kernels.pooled_input_gradient(slope, which, weight, size, padding)
        return gradient
    return _input_gradient(slope, which, weight, size, padding)


def _input_gradient(slope: Tensor, which: Tensor, weight: Tensor, size: torch.Size, padding: Padding) -> Tensor:
    spread, whole = _spread(slope, which, weight.shape, size, padding), torch.Size((slope.shape[1], *size))
    return input_gradient(spread, weight, whole, Shape(padding=padding))


def pooled_weight_gradient(
    x: Tensor, slope: Tensor, which: Tensor, size: torch.Size, padding: Padding
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of each client by its filters, of which one client has ``size``, and by its bias."""
    kernels = _kernels("pooled_weight_gradient", (x, slope, which), x.shape[2:], size, padding)
    if kernels is not None:
        gradients: tuple[Tensor, Tensor] = kernels.pooled_weight_gradient(x, slope, which, size[2:], padding)
        return gradients
    return _weight_gradient(x, slope, which, size, padding)


def _weight_gradient(
    x: Tensor, slope: Tensor, which: Tensor, size: torch.Size, padding: Padding
) -> tuple[Tensor, Tensor]:  # fmt: skip
    spread = _spread(slope, which, torch.Size((len(x), *size)), x.shape[2:], padding)
    return weight_gradient(x, spread, size, Shape(padding=padding))
