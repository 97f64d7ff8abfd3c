"""Makes what clients hold: their networks, with the same initial weights on every engine."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms.uploads import State
from potluck.client import Architecture
from potluck.contract import Batch, Loss, Networks, Phase, Received
from potluck.engines.base import Setting
from potluck.engines.batches import Inputs, has_batch_norm, sizes
from potluck.engines.cpu import ForCPU
from potluck.engines.randomness import CounterDropout, RefuseUnseeded
from potluck.metrics.flops import Cost, collecting_cost, training_cost
from potluck.models.copying import copy_of

_KEPT = 8
"""How many architectures' initial weights are kept at hand."""


class Workshop:
    """Networks, initial weights and costs per architecture.

    Args:
        setting: What all clients have in common.
        costs: What is known of costs already, by others too: to find them out takes as long as a small step.
    """

    def __init__(self, setting: Setting, costs: dict[object, Cost] | None = None) -> None:
        self.setting = setting
        self._networks: dict[str, Networks] = {}
        self._initial: OrderedDict[Architecture, State] = OrderedDict()
        self._costs = {} if costs is None else costs
        self._layouts: dict[int, torch.memory_format] = {}

    def make(self, architecture: Architecture) -> dict[str, nn.Module]:
        """Fresh networks for a client of this architecture, with their initial weights."""
        setting = self.setting
        with draws.initial_weights(draws.fold(setting.seed, "networks", architecture.key)):
            made = setting.algorithm.networks(architecture.build(), setting.task)
        if not isinstance(made, dict) or not all(isinstance(module, nn.Module) for module in made.values()):
            raise TypeError("it does not give a dict of nn.Module.")
        return {name: module.to(setting.device, setting.dtype) for name, module in made.items()}

    def inputs(self, net: Networks) -> Inputs:
        """How this client's samples become inputs of its networks."""
        layout = self._layouts.get(id(net), torch.contiguous_format)
        return Inputs(self.setting.transform, self.setting.device, self.setting.dtype, layout)

    def _lay_out(self, net: Networks) -> None:
        """Turn networks for images to the layout in which CPUs convolve faster, if they can work in it."""
        setting = self.setting
        if setting.device.type != "cpu" or len(setting.task.shape) != 3:
            return
        x = torch.zeros(2, *setting.task.shape, dtype=setting.dtype).contiguous(memory_format=torch.channels_last)
        trial = {name: copy_of(module).eval() for name, module in net.modules.items()}
        for module in trial.values():
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        try:
            with ForCPU():
                Networks(trial)(x)
        except (RuntimeError, AttributeError):
            return  # it reshapes by view(), which this layout does not allow, or has no body and head
        for module in net.modules.values():
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._layouts[id(net)] = torch.channels_last

    def computing(self, net: Networks) -> AbstractContextManager[object]:
        """While active, these networks compute as CPUs do it faster, if they were laid out for it."""
        return ForCPU() if id(net) in self._layouts else nullcontext()

    def networks(self, architecture: Architecture) -> Networks:
        """Networks into which the weights of any client of this architecture can be loaded."""
        if architecture.key not in self._networks:
            self._networks[architecture.key] = Networks(self.make(architecture), task=self.setting.task)
            self._lay_out(self._networks[architecture.key])
        return self._networks[architecture.key]

    def initial(self, architecture: Architecture) -> State:
        """The weights a client of this architecture starts from."""
        if architecture not in self._initial:
            made = Networks(self.make(architecture)).state()
            self._initial[architecture] = {name: tensor.cpu() for name, tensor in made.items()}
        self._initial.move_to_end(architecture)
        while len(self._initial) > _KEPT:
            self._initial.popitem(last=False)
        return self._initial[architecture]

    def batch_sizes(self, net: Networks, phase: Phase, samples: int) -> list[int]:
        """How one epoch of a phase over ``samples`` samples is cut into steps."""
        learning = [net.modules[name] for name in phase.learning]
        return sizes(samples, self.setting.training.batch_size, has_batch_norm(*learning))

    def epochs(self, phase: Phase) -> int:
        """How many epochs a phase lasts."""
        return self.setting.training.epochs if phase.epochs is None else phase.epochs

    def phase_flops(
        self, architecture: Architecture, number: int, phase: Phase, received: Received, steps: Sequence[int]
    ) -> int:
        """Operations of all epochs of a phase whose epochs have these batch sizes.

        A step of a phase, known by its number in the round, costs the same in every round.
        """
        key = (architecture.key, number, phase.learning, phase.views, phase.data)
        if key not in self._costs:
            modules = self.networks(architecture).modules
            trial = replace(phase, loss=_repeatable(phase.loss))
            self._costs[key] = training_cost(modules, trial, received, self.setting.task, self.setting.dtype)
        return self.epochs(phase) * self._costs[key].of(steps)

    def collecting_flops(self, architecture: Architecture, received: Received, samples: int) -> int:
        """Operations of collecting over ``samples`` samples, taken one by one."""
        key = (architecture.key, "collect")
        if key not in self._costs:
            modules = self.networks(architecture).modules
            collect = self.setting.algorithm.collect
            self._costs[key] = collecting_cost(modules, collect, received, self.setting.task, self.setting.dtype)
        return self._costs[key].of([1], times=samples)

    def to_device(self, tensors: Received) -> dict[str, Tensor]:
        """Copies of what was received, where the networks are."""
        return {name: tensor.to(self.setting.device, copy=True) for name, tensor in tensors.items()}


def _repeatable(loss: Loss) -> Loss:
    """The loss as it is in training, refused if it draws anything that a run could not repeat."""

    def trial(net: Networks, batch: Batch, received: Received) -> Tensor:
        with CounterDropout(batch.key), RefuseUnseeded():  # type: ignore[no-untyped-call]
            return loss(net, batch, received)

    return trial
