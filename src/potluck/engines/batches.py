"""Which samples meet in which batch, and how they are augmented: the same on every engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.contract import Batch, Phase
from potluck.data.examples import Examples
from potluck.data.transform import Transform

EVALUATION_BATCH = 1000
"""Samples that are evaluated or collected from at once: one number, for a network may look at its whole batch."""

_BATCH_NORM = (nn.modules.batchnorm._BatchNorm,)


def order_key(key: int, epoch: int) -> int:
    """The key of the order in which an epoch visits its samples."""
    return draws.fold(key, "order", epoch)


def step_key(key: int, epoch: int) -> int:
    """The key of the draws within the steps of an epoch, such as dropout."""
    return draws.fold(key, "step", epoch)


def view_key(key: int, epoch: int, view: int) -> int:
    """The key by which the samples of an epoch are augmented."""
    return draws.fold(key, "augment", epoch, view)


def orders(key: int, epoch: int, samples: int, device: torch.device) -> Tensor:
    """The order in which an epoch visits its samples."""
    return draws.permutation(order_key(key, epoch), samples, device)


def sizes(samples: int, batch_size: int, drop_single: bool) -> list[int]:
    """How an epoch is cut into batches; the last may be smaller.

    Batch norm cannot learn from a single sample: with ``drop_single`` a last batch of one is left out, unless it is
    the only one.

    >>> sizes(9, 4, drop_single=False), sizes(9, 4, drop_single=True), sizes(1, 4, drop_single=True)
    ([4, 4, 1], [4, 4], [1])
    """
    full, rest = divmod(samples, batch_size)
    tail = [rest] if rest and not (rest == 1 and drop_single and full) else []
    return [batch_size] * full + tail


def has_batch_norm(*modules: nn.Module) -> bool:
    """Whether any part of the modules normalises over the batch."""
    return any(isinstance(part, _BATCH_NORM) for module in modules for part in module.modules())


@dataclass(frozen=True)
class Inputs:
    """How samples become inputs of a network: transformed, on its device, in its type and memory layout."""

    transform: Transform
    device: torch.device
    dtype: torch.dtype
    layout: torch.memory_format = torch.contiguous_format

    def plain(self, x: Tensor) -> Tensor:
        """Inputs for evaluation."""
        return self._laid_out(self.transform.plain(x.to(self.device), self.dtype))

    def augmented(self, x: Tensor, keys: Tensor) -> Tensor:
        """Inputs for training, one key per sample."""
        return self._laid_out(self.transform.augmented(x.to(self.device), keys, self.dtype, self.layout))

    def _laid_out(self, x: Tensor) -> Tensor:
        return x.contiguous(memory_format=self.layout) if x.ndim == 4 else x


def epoch_batches(
    data: Examples, batch_sizes: Sequence[int], key: int, epoch: int, phase: Phase, inputs: Inputs
) -> Iterator[Batch]:
    """The batches of one epoch of a phase. ``key`` names the seed, round, client and phase."""
    order = orders(key, epoch, len(data), data.device)
    start = 0
    for size in batch_sizes:
        positions = order[start : start + size]
        start += size
        x, y = data.take(positions)
        index = positions.to(inputs.device)
        views = tuple(_view(x, index, view_key(key, epoch, view), phase, inputs) for view in range(phase.views))
        weight = torch.ones(size, dtype=inputs.dtype, device=inputs.device)
        yield Batch(views, y.to(inputs.device), weight, index, draws.spread(step_key(key, epoch), index))


def _view(x: Tensor, index: Tensor, key: int, phase: Phase, inputs: Inputs) -> Tensor:
    return inputs.augmented(x, draws.spread(key, index)) if phase.augmented else inputs.plain(x)


def plain_batches(data: Examples, size: int, inputs: Inputs) -> Iterator[Batch]:
    """All samples in order, not augmented, for evaluating and collecting."""
    for start in range(0, len(data), size):
        positions = torch.arange(start, min(start + size, len(data)), device=data.device)
        x, y = data.take(positions)
        index = positions.to(inputs.device)
        weight = torch.ones(len(index), dtype=inputs.dtype, device=inputs.device)
        yield Batch((inputs.plain(x),), y.to(inputs.device), weight, index, index)
