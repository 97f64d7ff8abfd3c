"""Batch norm that sees which samples are padding, and gives its new statistics back instead of changing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from potluck.errors import ModelError


class Norms:
    """All batch norms of one architecture, and what they have seen in a step.

    A network may be called several times in a step; its statistics then follow one another, in the order of the calls.

    Attributes:
        updates: New running statistics and counters, by the path of the buffer.
        takes_two: Whether somewhere a sample gives one value per channel, so that a batch of one has no variance.
    """

    def __init__(self) -> None:
        self.updates: dict[str, Tensor] = {}
        self.takes_two = False
        self._weight: Tensor | None = None

    @contextmanager
    def seeing(self, weight: Tensor) -> Iterator[Norms]:
        """While active, batch norms take samples for padding whose ``weight`` is 0."""
        self._weight, self.updates = weight, {}
        try:
            yield self
        finally:
            self._weight, self.updates = None, {}

    def take_over(self, name: str, module: nn.Module, first: Mapping[str, str]) -> None:
        """Let every batch norm within the network ``name`` compute what it does on the samples that count.

        Args:
            name: Of the network.
            module: The network; it is changed.
            first: By what path a buffer is known that has several.
        """
        for path, part in module.named_modules():
            # One with a forward of its own computes something else: whether that can be padded, a trial shows.
            if isinstance(part, _BatchNorm) and type(part).forward is _BatchNorm.forward:
                prefix = f"{name}.{path}." if path else f"{name}."
                paths = {key: first.get(prefix + key, prefix + key) for key, _ in part.named_buffers()}
                part.forward = partial(self._forward, part, paths)  # type: ignore[method-assign]  # of this copy alone

    def _forward(self, part: _BatchNorm, paths: Mapping[str, str], x: Tensor) -> Tensor:
        untracked = part.running_mean is None and part.running_var is None
        if not part.training and not untracked:
            return _BatchNorm.forward(part, x)
        part._check_input_dim(x)  # type: ignore[no-untyped-call]  # PyTorch's own
        weight = self._weights(x)
        each = x.shape[2:].numel()
        self.takes_two |= x.shape[0] // self._samples * each == 1
        # At least one: a client whose samples are all padding has no statistics, and its step is discarded.
        count = weight.sum().clamp(min=1) * each
        result, mean, variance = _normalised(x, weight, count, part.eps)
        if part.training and part.track_running_stats:
            self._track(part, paths, mean, variance * (count / (count - 1).clamp(min=1)))
        shape = (1, -1, *(1 for _ in x.shape[2:]))
        if part.weight is not None:
            result = result * part.weight.view(shape)
        if part.bias is not None:
            result = result + part.bias.view(shape)
        return result

    @property
    def _samples(self) -> int:
        if self._weight is None:
            raise ModelError("a network was called outside of a step.")
        return self._weight.shape[0]

    def _weights(self, x: Tensor) -> Tensor:
        """One weight per row of ``x``; a network may be called with several times the samples of the batch."""
        repeats, rest = divmod(x.shape[0], self._samples)
        if rest or self._weight is None:
            raise ModelError(
                f"batch norm saw {x.shape[0]} samples in a batch of {self._samples}: keep samples in rows."
            )
        return self._weight.to(x.dtype).repeat(repeats).view(-1, *(1 for _ in x.shape[1:]))

    def _track(self, part: _BatchNorm, paths: Mapping[str, str], mean: Tensor, variance: Tensor) -> None:
        factor: Tensor | float = 0.0 if part.momentum is None else part.momentum
        if part.num_batches_tracked is not None:
            seen = self._latest(paths["num_batches_tracked"], part.num_batches_tracked) + 1
            self.updates[paths["num_batches_tracked"]] = seen
            if part.momentum is None:
                factor = 1 / seen.to(mean.dtype)
        for key, new in (("running_mean", mean), ("running_var", variance)):
            held = getattr(part, key)
            if held is not None:
                before = self._latest(paths[key], held)
                self.updates[paths[key]] = (1 - factor) * before + factor * new.to(before.dtype)

    def _latest(self, path: str, held: Tensor) -> Tensor:
        return self.updates.get(path, held)


def _normalised(x: Tensor, weight: Tensor, count: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    result: tuple[Tensor, Tensor, Tensor]
    result = _Normalised.apply(x, weight, count, eps)  # type: ignore[no-untyped-call]  # PyTorch's own
    return result


class _Normalised(torch.autograd.Function):
    """A batch with mean 0 and variance 1 over the samples that count, and its mean and variance before.

    Its gradient is written out, for which PyTorch by itself would need twice as many operations.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, count: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """``x``, of which each row has a ``weight`` of 0 or 1; ``count`` is how many values of a channel count."""
        over = _all_but_channels(x)
        mean = (x * weight).sum(over, keepdim=True) / count
        apart = x - mean
        variance = (apart.square() * weight).sum(over, keepdim=True) / count
        return apart * torch.rsqrt(variance + eps), mean.flatten(), variance.flatten()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        """Keep what the gradient is made of."""
        _, weight, count, ctx.eps = inputs
        result, mean, variance = output
        ctx.mark_non_differentiable(mean, variance)
        ctx.save_for_backward(result, variance, weight, count)

    @staticmethod
    def backward(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient by ``x``."""
        result, variance, weight, count = ctx.saved_tensors
        over = _all_but_channels(slope)
        scale = torch.rsqrt(variance + ctx.eps).view(1, -1, *(1 for _ in slope.shape[2:]))
        common = slope.sum(over, keepdim=True) + result * (slope * result).sum(over, keepdim=True)
        return scale * (slope - weight * (common / count)), None, None, None


def _all_but_channels(x: Tensor) -> list[int]:
    return [dimension for dimension in range(x.ndim) if dimension != 1]
