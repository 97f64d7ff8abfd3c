"""What stays on the device for the clients of one architecture, from round to round."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from potluck.client import Architecture
from potluck.contract import Phase, Received
from potluck.engines.base import Setting
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.data import Pools
from potluck.engines.stacked.program import Program, Room
from potluck.engines.stacked.stack import Stack, alike
from potluck.engines.stacked.template import Template
from potluck.engines.stacked.trial import NotStackableError, Verdict, try_phase, try_reading
from potluck.engines.workshop import Workshop

_STACKS, _PROGRAMS = 6, 48
"""How many of each are kept; cohorts of an architecture come in few sizes."""


class Resident:
    """Networks, stacks, data, programs and the stream of one architecture.

    Args:
        setting: What all clients have in common.
        workshop: Makes the networks.
        architecture: Any one with the key of these clients.
    """

    def __init__(self, setting: Setting, workshop: Workshop, architecture: Architecture) -> None:
        self.setting = setting
        self.key = architecture.key
        self.net = workshop.networks(architecture)
        self.template = Template(self.net.modules, setting.task, setting.precision)
        self.refused: str | None = None
        self.used = 0
        """When its clients last worked, for whoever has to make room."""
        self.pools = Pools()
        self._studio = Studio(setting.device)
        self._stream = _stream(setting.device)
        self._verdicts: dict[Hashable, Verdict] = {}
        self._reading: bool | None = None
        self._stacks: OrderedDict[int, Stack] = OrderedDict()
        self._programs: OrderedDict[Hashable, Program] = OrderedDict()

    # ---- whether they can be stacked ------------------------------------------------------------------------------

    def refuses(self, phases: Sequence[Phase], received: Sequence[Received]) -> str | None:
        """Why clients that received this cannot step together through these phases; ``None`` if they can."""
        if self.refused is None:
            try:
                self._try(phases, received)
            except NotStackableError as error:
                self.refused = str(error)
                self.clear()
        return self.refused

    def _try(self, phases: Sequence[Phase], received: Sequence[Received]) -> None:
        if not alike(received):
            raise NotStackableError("what its clients receive differs in names, shapes or types")
        setting, modules = self.setting, self.net.modules
        if self._reading is None:
            self._reading = try_reading(modules, setting.algorithm, received[0], setting.task, setting.dtype)
        for number, phase in enumerate(phases):
            key = _signature(number, phase)
            # Networks that are not there are said to be missing when their turn comes.
            if key not in self._verdicts and set(phase.learning) <= modules.keys():
                self._verdicts[key] = try_phase(
                    modules, phase, received[0], setting.training, setting.task, setting.dtype
                )

    def takes_two(self, number: int, phase: Phase) -> bool:
        """Whether batch norm needs at least two samples in every batch of a phase."""
        verdict = self._verdicts.get(_signature(number, phase))
        return verdict is not None and verdict.takes_two

    @property
    def reading_takes_two(self) -> bool:
        """Whether batch norm needs at least two samples in every batch that is predicted or collected from."""
        return bool(self._reading)

    # ---- what they step in ----------------------------------------------------------------------------------------

    @contextmanager
    def working(self) -> Iterator[None]:
        """While active, everything is done on the stream of this architecture."""
        with torch.cuda.stream(self._stream), self.setting.precision.working():  # the stream may be none
            yield

    def wait(self) -> None:
        """Let the stream of this architecture wait for what was begun before."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self.setting.device))

    def stack(self, size: int) -> Stack:
        """Room for so many clients."""
        if size not in self._stacks:
            if self._stream is None:
                self.clear(but=size)  # only recorded steps gain from one that is kept
            while len(self._stacks) >= _STACKS:
                gone, _ = self._stacks.popitem(last=False)
                self._programs = OrderedDict((k, p) for k, p in self._programs.items() if p.stack.size != gone)
            self._stacks[size] = Stack(self.template, size, self.setting.device)
        self._stacks.move_to_end(size)
        return self._stacks[size]

    def program(self, stack: Stack, number: int, phase: Phase, clients: int, width: int, steps: int) -> Program:
        """A program with room for so much."""
        room = Room(clients, width, 1 << max(steps - 1, 0).bit_length())
        signature = _signature(number, phase)
        key = (stack.size, signature, room)
        if key not in self._programs:
            untouched = self._verdicts[signature].untouched
            setting = self.setting
            while len(self._programs) >= _PROGRAMS:
                self._programs.popitem(last=False)
            self._programs[key] = Program(
                stack, phase, untouched, setting.training, setting.transform, room, self._studio
            )
        self._programs.move_to_end(key)
        return self._programs[key]

    def clients(self, but: int = 0) -> int:
        """For how many clients there is room now, in all stacks but that of so many clients."""
        return sum(size for size in self._stacks if size != but)

    def clear(self, but: int = 0) -> None:
        """Give all memory back, but that of a stack of so many clients."""
        self._programs = OrderedDict((key, p) for key, p in self._programs.items() if p.stack.size == but)
        self._stacks = OrderedDict((size, stack) for size, stack in self._stacks.items() if size == but)
        if not but:
            self.pools = Pools()


def _stream(device: torch.device) -> torch.cuda.Stream | None:
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]  # PyTorch's


def _signature(number: int, phase: Phase) -> Hashable:
    """What is the same for a phase in every round, though it is made anew: its rates alone may change."""
    groups = tuple(
        (group.networks, group.momentum, group.weight_decay, group.clip_norm, _code(group.project))
        for group in phase.groups
    )
    return number, _code(phase.loss), groups, phase.data, phase.views, phase.augmented


def _code(function: Callable[..., Any] | None) -> Hashable:
    """What a function is, for one that is made anew in every round; what it knows of the round, it is told."""
    return getattr(function, "__qualname__", None), getattr(function, "__code__", type(function))
