"""States of clients that are still on the device, so that they need not be copied there again."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from dataclasses import dataclass

from torch import Tensor

from potluck.algorithms.uploads import State


@dataclass(frozen=True)
class _Twin:
    """A tensor on the device, and the one on the CPU that it is a copy of."""

    original: weakref.ref[Tensor]
    version: int
    copy: Tensor

    def is_of(self, tensor: Tensor) -> bool:
        # The very tensor, and not written to since: anything else with the same values is not worth a comparison.
        return self.original() is tensor and self.version == tensor._version


class Cache:
    """Copies of client states on the device, up to a number of bytes; those that were used last stay.

    The state on the CPU is the truth: a copy counts only as long as the client holds that very state, unchanged. It
    does not keep the state on the CPU alive.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[int, dict[str, _Twin]] = OrderedDict()
        self._bytes = 0

    def get(self, client: int, state: State) -> State | None:
        """The copy of ``state``, if it is here."""
        kept = self._kept.get(client)
        if kept is None or kept.keys() != state.keys() or not all(kept[p].is_of(t) for p, t in state.items()):
            return None
        self._kept.move_to_end(client)
        return {path: twin.copy for path, twin in kept.items()}

    def put(self, client: int, state: State, copy: State) -> None:
        """Keep the copy on the device of a client's new state."""
        self.drop(client)
        size = _size(copy)
        if size > self._limit:
            return
        self._kept[client] = {p: _Twin(weakref.ref(t), t._version, copy[p]) for p, t in state.items()}
        self._bytes += size
        while self._bytes > self._limit:
            self.drop(next(iter(self._kept)))

    def drop(self, client: int) -> None:
        """Forget a client."""
        kept = self._kept.pop(client, {})
        self._bytes -= _size({path: twin.copy for path, twin in kept.items()})

    def clear(self) -> None:
        """Forget everybody."""
        self._kept.clear()
        self._bytes = 0

    @property
    def enabled(self) -> bool:
        """Whether there is any room."""
        return self._limit > 0


def _size(state: State) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())
