"""The weights of many clients of one architecture, a row of memory for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from potluck.algorithms.uploads import State
from potluck.contract import Received
from potluck.contract.networks import check_fit
from potluck.engines.demands import weights_among
from potluck.engines.stacked.porter import Porter
from potluck.engines.stacked.recycled import Recycler
from potluck.engines.stacked.template import Template
from potluck.engines.stacked.transfer import sent, sent_together, staged

_PORTION = 64 << 20
"""Bytes that are sent or fetched in one go: they take as much memory on the way, which no other program can use."""

_THREADS = 4
"""So many rows of a GPU are copied at a time."""

_recycler = Recycler(192 << 20)
"""One for all: as rounds go by, what clients held is replaced by what they hold now."""


@lru_cache
def _porter(device: torch.device) -> Porter:
    """One for each device: one that is done does not wait for others."""
    return Porter(_recycler, _PORTION, _THREADS if device.type == "cuda" else 0)


class Stack:
    """Room for ``size`` clients, on the device: weights, what they received, and what optimisers remember.

    The memory stays where it is from round to round, so that recorded steps can be replayed on other clients. Where
    fewer clients are loaded than there is room for, the first one fills the rest.
    """

    def __init__(self, template: Template, size: int, device: torch.device) -> None:
        self.template, self.size, self.device = template, size, device
        self.rows = template.layout.rows(size, device)
        """What each client holds, as one row of bytes."""
        self.weights = template.layout.views(self.rows)
        self.received: dict[str, Tensor] = {}
        self._arrived: dict[str, tuple[bool, torch.Size, torch.dtype]] = {}
        self._slots: dict[str, Tensor] = {}

    def load(self, held: Sequence[State | Tensor]) -> None:
        """Take what clients hold: states of the CPU, or rows that are on the device already."""
        if all(one is held[0] for one in held):
            held = held[:1]
        here = [row for row, one in enumerate(held) if isinstance(one, Tensor)]
        away = [(row, one) for row, one in enumerate(held) if not isinstance(one, Tensor)]
        for some in self._portions(len(away)):
            rows, states = [row for row, _ in away[some]], [one for _, one in away[some]]
            arrived = self._sent(states)
            if rows[-1] - rows[0] == len(rows) - 1:
                self.rows[rows[0] : rows[-1] + 1] = arrived
            else:
                self.rows.index_copy_(0, sent(torch.tensor(rows), self.device), arrived)
        for row in here:
            one = held[row]
            assert isinstance(one, Tensor)  # noqa: S101  (by what ``here`` is)
            self.rows[row].copy_(one)
        if len(held) < self.size:
            self.rows[len(held) :] = self.rows[:1]

    def _portions(self, count: int) -> list[slice]:
        """So many clients, in portions that are moved in one go."""
        at_once = max(_PORTION // max(self.template.layout.bytes, 1), 1)
        return [slice(start, min(start + at_once, count)) for start in range(0, count, at_once)]

    def _sent(self, states: Sequence[State]) -> Tensor:
        """States of the CPU as rows on the device, in one transfer."""
        layout, first = self.template.layout, self.template.first
        expected = {path: self.template.own[own] for path, own in first.items()}
        rows = staged((len(states), layout.bytes), torch.uint8, self.device)
        layout.tidy(rows)
        views = layout.views(rows)
        for row, state in enumerate(states):
            check_fit(state, expected, whole=True)
            for path, view in views.items():
                view[row].copy_(state[path])
        return rows.to(self.device, non_blocking=True)

    def receive(self, received: Sequence[Received], shared: Sequence[str]) -> None:
        """Take what clients received, and load the weights of shared networks among it.

        What all of them received as one and the same tensor is there once.
        """
        arrived = {
            name: (all(one[name] is tensor for one in received), tensor.shape, tensor.dtype)
            for name, tensor in received[0].items()
        }
        if arrived != self._arrived:
            self.received = {
                name: torch.empty(1 if same else self.size, *shape, dtype=dtype, device=self.device)
                .expand(self.size, *shape)
                for name, (same, shape, dtype) in arrived.items()
            }  # fmt: skip
            self._arrived = arrived
        for name, (same, _, _) in arrived.items():
            target = self.received[name]
            _fill(target[:1] if same else target, [one[name] for one in received[: 1 if same else None]])
        weights = weights_among(received[0], shared)
        check_fit(weights, {path: self.template.own[first] for path, first in self.template.first.items()})
        for name in weights:
            self.weights[self.template.first[name]].copy_(self.received[name])

    def slots(self, kind: str) -> Tensor:
        """Memory of an optimiser, as large as that of the weights and laid out alike; all phases use the same."""
        if kind not in self._slots:
            self._slots[kind] = torch.zeros_like(self.rows)
        return self._slots[kind]

    def states(self, count: int) -> Iterator[State]:
        """Begin to bring what each of the first ``count`` clients holds to the CPU, where it then comes one by one."""
        coming = [row for some in self._portions(count) for row in _porter(self.device).brought(self.rows[some])]
        return (self._state(row.result()) for row in coming)

    def _state(self, row: Tensor) -> State:
        own, first = self.template.layout.views(row), self.template.first
        return {path: own[path] if path == one else own[one].clone() for path, one in first.items()}

    def row(self, client: int) -> Tensor:
        """A copy of what one client holds, on the device."""
        return self.rows[client].clone()


def alike(received: Sequence[Received]) -> bool:
    """Whether clients received tensors of the same names, shapes and types, so that these can be stacked."""
    kinds = [{name: (tensor.shape, tensor.dtype) for name, tensor in one.items()} for one in received]
    return all(kind == kinds[0] for kind in kinds)


def _fill(target: Tensor, parts: Sequence[Tensor]) -> None:
    """Put one tensor per client into the rows of ``target``; the first fills the rows that are left."""
    target[: len(parts)] = sent_together(parts, target.device)
    if len(parts) < len(target):
        target[len(parts) :] = target[:1]
