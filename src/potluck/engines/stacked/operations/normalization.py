"""Batch norm over the samples that count: by kernels where there are some, and else by few operations of PyTorch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from potluck.engines.stacked.operations.checks import agree, passes
from potluck.engines.stacked.operations.clients import Dims, in_front
from potluck.engines.stacked.operations.kernels import compiled, usable
from potluck.engines.stacked.operations.kernels.memory import channels_last

_COUNTED = 1 << 30
"""Numbers of one client: of more, kernels would lose count."""
_KERNELS = ("normalize", "normalize_gradient")
_ENOUGH = 17
"""Channels to try kernels with: of more they take some after others."""

Norm = tuple[Tensor, Tensor, Tensor, Tensor]
"""What batch norm gives, and of each channel the mean, the variance (over all numbers but one), and the factor by which
that becomes 1."""


def _kernels(what: str, x: Tensor, gamma: Tensor | None, *others: Tensor | None) -> SimpleNamespace | None:
    """The kernels, if the one that is needed works on images like ``x``."""
    kernels = usable(x, gamma, *others) if x[0].numel() < _COUNTED else None
    given = x.dtype, min(x.shape[2], _ENOUGH), x.ndim, x.is_contiguous(), gamma is not None
    return kernels if kernels is not None and passes(_right, what, _KERNELS, x.device, *given) else None


def _right(
    what: str, device: torch.device, dtype: torch.dtype, channels: int, dims: int, first: bool, scaled: bool
) -> bool:  # fmt: skip
    """Whether a kernel, as compiled for such images, gives what PyTorch does."""
    kernels = compiled()
    assert kernels is not None  # noqa: S101  (whoever asks has them)
    shape = (2, 5, channels, *(3 for _ in range(dims - 3)))
    waves = torch.arange(torch.Size(shape).numel(), device=device).view(shape)
    x, slope = (2 + (1.7 * waves).sin()).to(dtype), (0.9 * waves).cos().to(dtype)
    if not first:
        x = channels_last(x, 2)
    weight = torch.ones(2, 5, device=device).tril(3)
    gamma = (1 + torch.arange(2 * channels, device=device).view(2, -1).cos()) if scaled else None
    by = None if gamma is None else gamma.double()
    expected = normalized(x.double(), weight.double(), by, by, eps=0.01)
    if what == "normalize":
        return agree(kernels.normalize(x, weight, gamma, gamma, eps=0.01), expected)
    _, mean, _, scale = expected
    found = kernels.normalize_gradient(slope, x, weight, gamma, mean.float(), scale.float())
    return agree(found, _pulled_back(slope.double(), x.double(), weight.double(), by, mean, scale))


def precise(x: Tensor) -> Tensor:
    """Numbers of which many can be added up."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _spread_out(values: Tensor, like: Tensor) -> Tensor:
    """Numbers of channels, [clients, channels], as they meet those of images [clients, samples, channels, ...]."""
    return values.view(len(values), 1, -1, *(1 for _ in like.shape[3:]))


def _marked(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """Which samples count, how many numbers of a channel that is, and the dimensions over which these are."""
    marks = weight.to(x.dtype).view(*weight.shape, *(1 for _ in x.shape[2:]))
    # At least one: a client whose samples are all padding has no statistics, and its step is discarded.
    count = _spread_out((weight.sum(1, keepdim=True).clamp(min=1) * x.shape[3:].numel()).to(x.dtype), x)
    return marks, count, [1, *range(3, x.ndim)]


def normalized(x: Tensor, weight: Tensor, gamma: Tensor | None, beta: Tensor | None, *, eps: float) -> Norm:
    """Batch norm of images [clients, samples, channels, ...], by operations of PyTorch that can be differentiated.

    Args:
        x: The images, or rows.
        weight: Of each sample, 0 or 1.
        gamma: By what channels are then multiplied.
        beta: What is then added.
        eps: Added to a variance.
    """
    kind, x = x.dtype, precise(x)
    marks, count, over = _marked(x, weight)
    mean = (x * marks).sum(over, keepdim=True) / count
    apart = x - mean
    squares = (apart.square() * marks).sum(over, keepdim=True)
    scale = torch.rsqrt(squares / count + eps)
    result = apart * (scale if gamma is None else scale * _spread_out(gamma, x))
    result = result if beta is None else result + _spread_out(beta, x)
    mean, spread, scale = (one.view(len(x), -1) for one in (mean, squares / (count - 1).clamp(min=1), scale))
    return result.to(kind), mean, spread, scale


def _pulled_back(
    slope: Tensor, x: Tensor, weight: Tensor, gamma: Tensor | None, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by ``x``, ``gamma`` and ``beta``: written out, for PyTorch would need twice as many operations."""
    kind, x, slope = x.dtype, precise(x), precise(slope)
    marks, count, over = _marked(x, weight)
    factor = _spread_out(scale, x)
    apart = (x - _spread_out(mean, x)) * factor
    by_beta, by_gamma = slope.sum(over, keepdim=True), (slope * apart).sum(over, keepdim=True)
    outer = factor if gamma is None else factor * _spread_out(gamma, x)
    by_x = outer * (slope - marks * ((by_beta + apart * by_gamma) / count))
    return by_x.to(kind), by_gamma.view(mean.shape), by_beta.view(mean.shape)


def _together(x: Tensor, weight: Tensor, gamma: Tensor | None, beta: Tensor | None, *, eps: float) -> Norm:
    kernels = _kernels("normalize", x, gamma, weight, beta)
    found: Norm = (normalized if kernels is None else kernels.normalize)(x, weight, gamma, beta, eps=eps)
    return found


def _slopes(
    slope: Tensor, x: Tensor, weight: Tensor, gamma: Tensor | None, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    kernels = _kernels("normalize_gradient", x, gamma, slope, weight, mean, scale)
    work = _pulled_back if kernels is None else kernels.normalize_gradient
    found: tuple[Tensor, Tensor, Tensor] = work(slope, x, weight, gamma, mean, scale)
    return found


def alone(*given: Tensor | None) -> list[Any]:
    """What one client has, as if it were the first of several."""
    return [None if one is None else one.unsqueeze(0) for one in given]


class BatchNorm(torch.autograd.Function):
    """As :func:`normalized`, of one client; only what it gives first has a gradient, and that has none."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, gamma: Tensor | None, beta: Tensor | None, eps: float) -> Norm:
        """Of one client."""
        out, mean, spread, scale = (one.squeeze(0) for one in _together(*alone(x, weight, gamma, beta), eps=eps))
        return out, mean, spread, scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Norm) -> None:
        """Keep what the gradients are made of."""
        x, weight, gamma, beta, _ = inputs
        _, mean, spread, scale = output
        ctx.mark_non_differentiable(mean, spread, scale)
        ctx.set_materialize_grads(False)  # zeros for these
        ctx.types = tuple(None if one is None else one.dtype for one in (gamma, beta))
        ctx.save_for_backward(x, weight, gamma, mean, scale)

    @staticmethod
    def backward(
        ctx: Any, slope: Tensor | None, *_: object
    ) -> tuple[Tensor | None, None, Tensor | None, Tensor | None, None]:  # fmt: skip
        """The gradients by the images, and by what scales and shifts them."""
        if slope is None:
            return None, None, None, None, None
        by_x, *others = _Slopes.apply(slope, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        by_gamma, by_beta = (
            None if kind is None else one.to(kind) for one, kind in zip(others, ctx.types, strict=True)
        )
        return by_x, None, by_gamma, by_beta, None

    @staticmethod
    def vmap(
        info: Any, dims: Dims, x: Tensor, weight: Tensor, gamma: Tensor | None, beta: Tensor | None, eps: float
    ) -> tuple[Norm, Dims]:  # fmt: skip
        """Of all clients."""
        return _together(*in_front(info.batch_size, dims, x, weight, gamma, beta), eps=eps), (0, 0, 0, 0)


class _Slopes(torch.autograd.Function):
    """The gradients of batch norm."""

    @staticmethod
    def forward(
        slope: Tensor, x: Tensor, weight: Tensor, gamma: Tensor | None, mean: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        by_x, by_gamma, by_beta = (one.squeeze(0) for one in _slopes(*alone(slope, x, weight, gamma, mean, scale)))
        return by_x, by_gamma, by_beta

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, dims: Dims, *given: Tensor | None) -> tuple[tuple[Tensor, Tensor, Tensor], Dims]:
        return _slopes(*in_front(info.batch_size, dims, *given)), (0, 0, 0)
