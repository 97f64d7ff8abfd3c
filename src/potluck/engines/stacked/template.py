"""What a client of one architecture holds, and its networks as pure functions of any client's weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from potluck.contract import Batch, Networks, Phase, Received, Task
from potluck.contract.networks import named_tensors
from potluck.engines.precision import Precision
from potluck.engines.randomness import CounterDropout
from potluck.engines.stacked.layout import Layout
from potluck.engines.stacked.norm import Norms
from potluck.engines.stacked.operations import Operations
from potluck.models.copying import copy_of

Weights = Mapping[str, Tensor]
"""Parameters and buffers by path: of one client, or of all clients of a stack with one more dimension in front."""


class Template:
    """The networks of one architecture, whose own weights are never used.

    Args:
        modules: The networks, which are copied.
        task: What they learn.
        precision: In which numbers losses and predictions are computed; those of the weights by default.
    """

    def __init__(self, modules: Mapping[str, nn.Module], task: Task, precision: Precision | None = None) -> None:
        self.precision = precision or Precision("float64", torch.device("cpu"))
        # In one go: networks may have a weight in common.
        self.modules = copy_of(dict(modules))
        self.task = task
        self.norms = Norms()
        self.first: dict[str, str] = {}
        """Every path, in the order of a state, and the first of those that lead to the same tensor."""
        self.own: dict[str, Tensor] = {}
        """Every tensor by its first path."""
        known: dict[int, str] = {}
        for name, module in self.modules.items():
            for path, tensor in named_tensors(name, module.requires_grad_(False)):
                self.first[path] = known.setdefault(id(tensor), path)
                self.own.setdefault(self.first[path], tensor)
        self.layout = Layout(self.own)
        for name, module in self.modules.items():
            self.norms.take_over(name, module, self.first)

    @property
    def bytes(self) -> int:
        """Size of what one client holds."""
        return self.layout.bytes

    def parameters(self, names: Sequence[str]) -> list[str]:
        """First paths of all parameters of the networks ``names``."""
        found = (f"{name}.{path}" for name in names for path, _ in self.modules[name].named_parameters())
        return list(dict.fromkeys(self.first[path] for path in found))

    def train(self, learning: Sequence[str]) -> None:
        """Put the networks that learn in train mode, and all others in eval mode."""
        for name, module in self.modules.items():
            module.train(name in learning)

    def networks(self, weights: Weights) -> Networks:
        """The networks of the client with these weights."""
        return Networks(self.modules, {path: weights[first] for path, first in self.first.items()}, self.task)

    def loss(self, phase: Phase, weights: Weights, batch: Batch, received: Received) -> tuple[Tensor, Weights]:
        """The loss of one client in a step, and its new statistics of batch norm."""
        seeing, precise = self.norms.seeing(batch.weight), self.precision.autocast()
        with seeing as norms, Operations(), CounterDropout(batch.key), precise:
            return phase.loss(self.networks(weights), batch, received), norms.updates


def keep(active: Tensor, new: Tensor, old: Tensor) -> None:
    """Replace ``old`` by ``new`` for the clients that are active."""
    torch.where(active.view(-1, *(1 for _ in old.shape[1:])), new, old, out=old)
