"""What training costs in floating-point operations.

The rule: a multiply-add is 2 operations; matrix products and convolutions are counted, forward and backward, exactly as
they are executed (a frozen network needs no gradient of its weights); what works element by element is not counted.
Evaluation is no cost of training and is not counted.

Counting a step is slow, and its cost is a polynomial of the batch size: of degree 1 for nearly everything, of degree
2 for losses that compare the samples of a batch with each other. So it is counted once per architecture and phase,
at three small batch sizes, and evaluated for the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import torch
from torch import Tensor, nn

from potluck.contract import Batch, Networks, Phase, Received, Task
from potluck.metrics.counter import Counter
from potluck.models.copying import copy_of

_SIZES = (2, 4, 8)


class Cost:
    """Operations of a step, as a polynomial of its batch size."""

    def __init__(self, counts: Sequence[int]) -> None:
        a, b, c = counts
        self._square = (Fraction(c - b, 4) - Fraction(b - a, 2)) / 6
        self._linear = Fraction(b - a, 2) - 6 * self._square
        self._constant = a - 2 * self._linear - 4 * self._square

    def of(self, batch_sizes: Sequence[int], times: int = 1) -> int:
        """Operations of so many steps for each of the batch sizes.

        >>> Cost([20, 40, 80]).of([3, 5]), Cost([20, 40, 80]).of([1], times=8)
        (80, 80)
        """
        linear, square = sum(batch_sizes), sum(size * size for size in batch_sizes)
        return int((self._constant * len(batch_sizes) + self._linear * linear + self._square * square) * times)


def training_cost(
    modules: Mapping[str, nn.Module], phase: Phase, received: Received, task: Task, dtype: torch.dtype
) -> Cost:
    """The cost of one training step of a phase."""

    def step(net: Networks, batch: Batch, tensors: Received) -> None:
        phase.loss(net, batch, tensors).backward()  # type: ignore[no-untyped-call]

    return _count(modules, phase.learning, step, phase.views, received, task, dtype)


def collecting_cost(
    modules: Mapping[str, nn.Module],
    collect: Callable[[Networks, Batch, Received], object],
    received: Received,
    task: Task,
    dtype: torch.dtype,
) -> Cost:
    """The cost of collecting a statistic of one batch."""
    return _count(modules, (), collect, 1, received, task, dtype)


def predicting_flops(model: nn.Module, shape: tuple[int, ...]) -> int:
    """Operations of a forward pass of one sample in evaluation.

    The model may be on any device, on ``meta`` too: then nothing is computed.

    >>> predicting_flops(nn.Linear(3, 2), (3,))
    12
    """
    model = copy_of(model).eval()
    like = next(model.parameters(), torch.empty(0))
    with torch.no_grad(), Counter() as counter:
        model(torch.zeros(1, *shape, dtype=like.dtype, device=like.device))
    total: int = counter.total
    return total


def _count(
    modules: Mapping[str, nn.Module],
    learning: Sequence[str],
    step: Callable[[Networks, Batch, Received], object],
    views: int,
    received: Received,
    task: Task,
    dtype: torch.dtype,
) -> Cost:
    copies = {name: copy_of(module).cpu() for name, module in modules.items()}
    for name, module in copies.items():
        module.train(name in learning).requires_grad_(name in learning)
    tensors = {name: tensor.cpu() for name, tensor in received.items()}
    counts = []
    for size in _SIZES:
        with Counter() as counter:
            step(Networks(copies, task=task), _blank(size, views, task, dtype), tensors)
        counts.append(counter.total)
    return Cost(counts)


def _blank(size: int, views: int, task: Task, dtype: torch.dtype) -> Batch:
    x: Tensor = torch.zeros(size, *task.shape, dtype=dtype)
    # The first sample again and again: there is one in every data set that a loss may look things up in.
    first = torch.zeros(size, dtype=torch.int64)
    return Batch((x,) * views, first, torch.ones(size, dtype=dtype), first, torch.arange(size))
