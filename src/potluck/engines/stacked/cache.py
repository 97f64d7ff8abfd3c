"""What clients hold that is still on the device, so that it need not be copied there again."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from dataclasses import dataclass

from torch import Tensor

from potluck.algorithms.uploads import State


@dataclass(frozen=True)
class _Row:
    """What a client holds, as a row on the device; the tensors on the CPU that it is a copy of, and their versions."""

    originals: dict[str, tuple[weakref.ref[Tensor], int]]
    copy: Tensor

    def is_of(self, state: State) -> bool:
        # The very tensors, and not written to since: anything else with the same values is not worth a comparison.
        return self.originals.keys() == state.keys() and all(
            self.originals[path][0]() is tensor and self.originals[path][1] == tensor._version
            for path, tensor in state.items()
        )


class Cache:
    """Copies of client states on the device, up to a number of bytes; those that were used last stay.

    The state on the CPU is the truth: a copy counts only as long as the client holds that very state, unchanged. It
    does not keep the state on the CPU alive.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[int, _Row] = OrderedDict()
        self._bytes = 0

    def get(self, client: int, state: State) -> Tensor | None:
        """The copy of ``state``, if it is here."""
        kept = self._kept.get(client)
        if kept is None or not kept.is_of(state):
            return None
        self._kept.move_to_end(client)
        return kept.copy

    def put(self, client: int, state: State, copy: Tensor) -> None:
        """Keep the copy on the device of a client's new state."""
        self.drop(client)
        if copy.nbytes > self._limit:
            return
        originals = {path: (weakref.ref(tensor), tensor._version) for path, tensor in state.items()}
        self._kept[client] = _Row(originals, copy)
        self._bytes += copy.nbytes
        while self._bytes > self._limit:
            self.drop(next(iter(self._kept)))

    def drop(self, client: int) -> None:
        """Forget a client."""
        kept = self._kept.pop(client, None)
        self._bytes -= 0 if kept is None else kept.copy.nbytes

    def clear(self) -> None:
        """Forget everybody."""
        self._kept.clear()
        self._bytes = 0

    @property
    def enabled(self) -> bool:
        """Whether there is any room."""
        return self._limit > 0
