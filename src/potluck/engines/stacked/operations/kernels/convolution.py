"""Small convolutions of many clients at once, of stride 1, and their gradients, by kernels of our own.

Between few channels they are summed up directly, and else they are products of matrices. Gradients by filters, over all
pixels, are dealt out to many programs, whose sums are added up in a fixed order: the same inputs always give the same
bits.
"""

from __future__ import annotations

from torch import Tensor

from potluck.engines.stacked.operations.kernels import direct, products
from potluck.engines.stacked.operations.kernels.memory import arranged, empty, is_last
from potluck.engines.stacked.operations.shapes import ends, through

_FEW_SUMS = 32
"""Up to so many gradients, those by a row of all filters, are summed up directly."""
_PROGRAMS = 528
"""So many programs keep a large GPU busy: four on each of 132 processors."""


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int], *, relu: bool = False
) -> Tensor:  # fmt: skip
    """The convolution of each client.

    Args:
        x: [clients, samples, channels, height, width].
        weight: [clients, outputs, channels, height, width].
        bias: [clients, outputs], or none.
        padding: Rows and columns of zeros on either side.
        relu: Whether its ReLU is taken.
    """
    x = arranged(x)
    out = _room(x, weight.shape[1], weight, padding)
    if is_last(x.shape[2]) or is_last(out.shape[2]):
        products.convolve(x, weight, bias, out, padding)
        if relu:
            out.relu_()
    else:
        direct.convolve(x, weight, bias, out, padding, relu=relu)
    return out


def input_gradient(slope: Tensor, weight: Tensor, padding: tuple[int, int], gate: Tensor | None = None) -> Tensor:
    """The gradient of each client by its input: again a convolution, with the filters the other way round.

    Args:
        slope: The gradient by what the convolution gave, or by what a ReLU made of that.
        weight: The filters.
        padding: As it was.
        gate: What the ReLU gave, if there was one.
    """
    slope, gate = arranged(slope), None if gate is None else arranged(gate)
    rest = weight.shape[3] - 1 - padding[0], weight.shape[4] - 1 - padding[1]
    out = _room(slope, weight.shape[2], weight, rest)
    if is_last(slope.shape[2]) or is_last(out.shape[2]):
        products.convolve(through(slope, gate), weight, None, out, rest, turned=True)
    else:
        direct.convolve(slope, weight, None, out, rest, gate=gate, turned=True)
    return out


def weight_gradient(
    x: Tensor, slope: Tensor, kernel: tuple[int, int], padding: tuple[int, int], gate: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The gradients of each client by its filters, which have a height and a width, and by its bias."""
    x, slope, gate = arranged(x), arranged(slope), None if gate is None else arranged(gate)
    few = not is_last(x.shape[2]) and not is_last(slope.shape[2]) and slope.shape[2] * kernel[1] <= _FEW_SUMS
    if few:
        parts = direct.weight_gradient(x, slope, gate, kernel, padding, _PROGRAMS)
    else:
        parts = products.weight_gradient(x, through(slope, gate), kernel, padding, _PROGRAMS)
    found = parts.sum(0).to(x.dtype)
    outputs, channels = slope.shape[2], x.shape[2]
    return found[:, :-outputs].view(-1, outputs, channels, *kernel), found[:, -outputs:]


def _room(x: Tensor, outputs: int, weight: Tensor, padding: tuple[int, int]) -> Tensor:
    return empty(x, *x.shape[:2], outputs, *ends(x.shape[3:], weight.shape[3:], padding))
