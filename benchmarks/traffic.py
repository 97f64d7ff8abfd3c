"""How many bytes the operations of a round read and write, each input and output once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from potluck import draws
from potluck.contract import Batch, Networks, Phase, Received, Round
from potluck.engines.batches import sizes
from potluck.engines.optimizer import Optimizer
from potluck.federation import Federation

_TRIED = 8, 16
"""Samples of the steps that are counted; any other number follows from these, for bytes grow evenly with samples."""


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's modes are not typed
    """Counts the bytes of all inputs and outputs of operations; views move nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.bytes: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.bytes += sum(one.nbytes for one in _tensors((args, kwargs, result)))
        return result


def _tensors(tree: Any) -> Iterable[Tensor]:
    return {id(leaf): leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)}.values()


def traffic(federation: Federation, number: int) -> float:
    """Bytes of a round, in float32; without those of augmentation."""
    setting, algorithm = federation.setting, federation.algorithm
    round = Round(number, number, draws.fold(setting.seed, "server", number))
    known: dict[tuple[str, int], tuple[int, int]] = {}
    total = 0.0
    for member in federation.cohort(number):
        job = federation.job(member, round)
        received = algorithm.receive(job.payload, setting.task)
        for index, phase in enumerate((*algorithm.adapt(round), *algorithm.phases(round))):
            key = (job.client.architecture.key, index)
            if key not in known:
                modules = federation.engine.networks(job)
                few, more = (_step(federation, modules, phase, received, count) for count in _TRIED)
                known[key] = few, more
            few, more = known[key]
            each = (more - few) / (_TRIED[1] - _TRIED[0])
            epochs = setting.training.epochs if phase.epochs is None else phase.epochs
            for size in sizes(len(job.client.train), setting.training.batch_size, drop_single=False):
                total += epochs * (few + (size - _TRIED[0]) * each)
    return total


def _step(
    federation: Federation, modules: dict[str, torch.nn.Module], phase: Phase, received: Received, count: int
) -> int:
    """Bytes of one step."""
    task = federation.setting.task
    net = Networks({name: module.float() for name, module in modules.items()}, task=task)
    for name, module in net.modules.items():
        module.train(name in phase.learning).requires_grad_(name in phase.learning)
    numbers = torch.arange(count)
    x = torch.randn(count, *task.shape)
    batch = Batch((x,) * phase.views, numbers % task.classes, torch.ones(count), numbers * 0, numbers)
    optimizer = Optimizer(phase, net, federation.setting.training, 0.0)
    counter = _Counter()
    with counter:
        optimizer.step(phase.loss(net, batch, received))
    return counter.bytes
