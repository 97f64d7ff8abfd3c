"""Where a number of clients of one architecture step together: their stack and data, what is recorded, and a stream."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from potluck.contract import Phase
from potluck.engines.base import Setting
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.data import Pools
from potluck.engines.stacked.program import Program, Room
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Template

_KEPT = 64
"""How many programs are kept, and examinations of each kind: some widths of batches, phases, and clients at work."""

T = TypeVar("T")


class Track:
    """Room for ``size`` clients of one architecture. What is done here is done in turn; tracks run side by side.

    Args:
        setting: What all clients have in common.
        template: Their networks.
        size: How many clients.
        known: Names of steps that were recorded before, on any track.
    """

    def __init__(self, setting: Setting, template: Template, size: int, known: set[Hashable]) -> None:
        self._setting = setting
        self.stack = Stack(template, size, setting.device)
        self.pools = Pools()
        """Their data: tracks run side by side, and each has other clients."""
        self.studio = Studio(setting.device, known)
        self._stream = new_stream(setting.device)
        self._kept: dict[Hashable, OrderedDict[Hashable, Any]] = {}

    @contextmanager
    def working(self) -> Iterator[None]:
        """While active, everything is done on the stream of this track."""
        with torch.cuda.stream(self._stream), self._setting.precision.working():  # the stream may be none
            yield

    def wait(self) -> None:
        """Let the stream of this track wait for what was begun before."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._setting.device))

    def hand_over(self) -> None:
        """Let what is begun later wait for what was done here: other tracks may read what clients of this one hold."""
        if self._stream is not None:
            torch.cuda.current_stream(self._setting.device).wait_stream(self._stream)

    def program(self, name: Hashable, phase: Phase, untouched: frozenset[str], room: Room) -> Program:
        """A program with room for so much.

        Args:
            name: What is the same for the phase in every round.
            phase: As it is in this one.
            untouched: Parameters of learning networks that its loss does not reach.
            room: For how much.
        """

        def make() -> Program:
            training, transform = self._setting.training, self._setting.transform
            return Program(self.stack, phase, untouched, training, transform, room, self.studio, name)

        return self.kept(Program, (name, room), make)

    def kept(self, kind: Hashable, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for this key before, or is made now; of each kind, those that were used last stay."""
        shelf = self._kept.setdefault(kind, OrderedDict())
        if key not in shelf:
            while len(shelf) >= _KEPT:
                shelf.popitem(last=False)
            shelf[key] = make()
        shelf.move_to_end(key)
        found: T = shelf[key]
        return found


def new_stream(device: torch.device) -> torch.cuda.Stream | None:
    """A stream of its own, on a GPU."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]  # PyTorch's
