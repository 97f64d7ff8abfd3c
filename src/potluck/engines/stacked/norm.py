"""Batch norm that sees which samples are padding, and gives its new statistics back instead of changing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from potluck.engines.stacked.operations.mode import derived_once
from potluck.engines.stacked.operations.normalization import BatchNorm, Norm, alone, normalized, precise
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
        part._check_input_dim(x)  # type: ignore[no-untyped-call]  # PyTorch's own
        if not part.training and not (part.running_mean is None and part.running_var is None):
            return _as_tracked(part, x)
        weight = self._weights(x)
        self.takes_two |= x.shape[0] // self._samples * x.shape[2:].numel() == 1
        result, mean, variance, _ = _normalized(x, weight, part.weight, part.bias, part.eps)
        if part.training and part.track_running_stats:
            self._track(part, paths, mean, variance)
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
        return self._weight if repeats == 1 else self._weight.repeat(repeats)

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
                self.updates[paths[key]] = torch.lerp(before, new.to(before.dtype), factor)

    def _latest(self, path: str, held: Tensor) -> Tensor:
        return self.updates.get(path, held)


def _as_tracked(part: _BatchNorm, x: Tensor) -> Tensor:
    """By running statistics; PyTorch's own takes no stacked images on a GPU whose channels come last in memory."""
    mean, variance = part.running_mean, part.running_var
    if mean is None or variance is None:
        raise ModelError("batch norm tracks either means or variances, and takes both.")
    kind, x = x.dtype, precise(x)
    scale = torch.rsqrt(variance + part.eps)
    scale = scale if part.weight is None else scale * part.weight
    spread = (-1, *(1 for _ in x.shape[2:]))
    apart = x - mean.view(spread)  # before it is scaled: means may be far from zero
    shift = torch.zeros_like(scale) if part.bias is None else part.bias
    return torch.addcmul(shift.view(spread), apart, scale.view(spread)).to(kind)


def _normalized(x: Tensor, weight: Tensor, gamma: Tensor | None, beta: Tensor | None, eps: float) -> Norm:
    """Of one client, with statistics that have no gradient."""
    found: Norm
    if derived_once():
        found = BatchNorm.apply(x, weight, gamma, beta, eps)  # type: ignore[no-untyped-call]  # PyTorch's own
        return found
    result, mean, spread, scale = (one.squeeze(0) for one in normalized(*alone(x, weight, gamma, beta), eps=eps))
    return result, mean.detach(), spread.detach(), scale.detach()
