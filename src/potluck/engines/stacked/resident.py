"""What stays on the device for the clients of one architecture, from round to round."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from potluck.client import Architecture
from potluck.contract import Phase, Received
from potluck.engines.base import Setting
from potluck.engines.stacked.program import Program, Room
from potluck.engines.stacked.stack import alike
from potluck.engines.stacked.template import Template
from potluck.engines.stacked.track import Track
from potluck.engines.stacked.trial import NotStackableError, Verdict, try_phase, try_reading
from potluck.engines.workshop import Workshop

_TRACKS = 10
"""How many are kept; teams come in few sizes."""


class Resident:
    """Networks and tracks of one architecture.

    Args:
        setting: What all clients have in common.
        workshop: Makes the networks.
        architecture: Any one with the key of these clients.
        keeps: Whether tracks of several sizes are kept, for they run side by side and gain from what is recorded.
    """

    def __init__(self, setting: Setting, workshop: Workshop, architecture: Architecture, *, keeps: bool) -> None:
        self.setting, self._keeps = setting, keeps
        self.key = architecture.key
        self.net = workshop.networks(architecture)
        self.template = Template(self.net.modules, setting.task, setting.precision)
        self.refused: str | None = None
        self.used = 0
        """When its clients last worked, for whoever has to make room."""
        self._verdicts: dict[Hashable, Verdict] = {}
        self._reading: bool | None = None
        self._tracks: OrderedDict[int, Track] = OrderedDict()
        self._known: set[Hashable] = set()

    # ---- whether they can be stacked ------------------------------------------------------------------------------

    def refuses(self, phases: Sequence[Phase], received: Sequence[Received]) -> str | None:
        """Why clients that received this cannot step together through these phases; ``None`` if they can."""
        if self.refused is None:
            try:
                self._try(phases, received)
            except NotStackableError as error:
                self.refuse(str(error))
        return self.refused

    def refuse(self, reason: str) -> None:
        """Let these clients never step together again."""
        self.refused = reason
        self.clear()

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

    def track(self, size: int) -> Track:
        """Room for so many clients."""
        if size not in self._tracks:
            if not self._keeps:
                self.clear(but={size})
            while len(self._tracks) >= _TRACKS:
                self._tracks.popitem(last=False)
            self._tracks[size] = Track(self.setting, self.template, size, self._known)
        self._tracks.move_to_end(size)
        return self._tracks[size]

    def program(self, size: int, number: int, phase: Phase, clients: int, width: int, steps: int) -> Program:
        """A program for the first ``clients`` of ``size``, with room for so many samples of each, and steps."""
        # At least four steps: so many are tried before they are recorded.
        room = Room(clients, width, 1 << max(steps - 1, 3).bit_length())
        name = _signature(number, phase)
        return self.track(size).program(name, phase, self._verdicts[name].untouched, room)

    def clients(self, but: Collection[int] = ()) -> int:
        """For how many clients there is room now, beside the tracks of these sizes."""
        return sum(size for size in self._tracks if size not in but)

    def clear(self, but: Collection[int] = ()) -> None:
        """Give all memory back, but that of the tracks of these sizes."""
        self._tracks = OrderedDict((size, track) for size, track in self._tracks.items() if size in but)


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
