"""The weights of many clients of one architecture, stacked along a new first dimension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from potluck.algorithms.uploads import State
from potluck.contract import Received
from potluck.contract.networks import check_fit
from potluck.engines.demands import weights_among
from potluck.engines.stacked.template import Template
from potluck.engines.stacked.transfer import fetched, sent, sent_together

_PORTION = 1 << 30
"""Bytes that are fetched in one go."""


class Stack:
    """Room for ``size`` clients, on the device: weights, what they received, and what optimisers remember.

    The memory stays where it is from round to round, so that recorded steps can be replayed on other clients. Where
    fewer clients are loaded than there is room for, the first one fills the rest.
    """

    def __init__(self, template: Template, size: int, device: torch.device) -> None:
        self.template, self.size, self.device = template, size, device
        self.weights = {
            path: torch.zeros(size, *tensor.shape, dtype=tensor.dtype, device=device)
            for path, tensor in template.own.items()
        }
        self.received: dict[str, Tensor] = {}
        self._arrived: dict[str, tuple[bool, torch.Size, torch.dtype]] = {}
        self._slots: dict[tuple[str, str], Tensor] = {}

    def load(self, states: Sequence[State]) -> None:
        """Take the weights of clients; those that are on the device already are copied there."""
        expected = {path: self.template.own[first] for path, first in self.template.first.items()}
        for state in states:
            check_fit(state, expected)
        for path, target in self.weights.items():
            _fill(target, [state[path] for state in states])

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

    def slot(self, kind: str, path: str) -> Tensor:
        """Memory of an optimiser, as large as the parameter at ``path``; all phases use the same."""
        if (kind, path) not in self._slots:
            self._slots[kind, path] = torch.zeros_like(self.weights[path])
        return self._slots[kind, path]

    def states(self, count: int) -> list[State]:
        """What each of the first ``count`` clients holds, on the CPU."""
        held: list[State] = [{} for _ in range(count)]
        for paths in self._portions():
            for path, tensor in fetched({path: self.weights[path][:count] for path in paths}).items():
                for client in range(count):
                    held[client][path] = tensor[client].clone()
        return [
            {path: own[path] if path == first else own[first].clone() for path, first in self.template.first.items()}
            for own in held
        ]

    def _portions(self) -> Iterator[list[str]]:
        """Paths of weights that are fetched in one go; not all of them, for they take as much memory on the way."""
        portion: list[str] = []
        size = 0
        for path, tensor in self.weights.items():
            portion.append(path)
            size += tensor.numel() * tensor.element_size()
            if size >= _PORTION:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion

    def state(self, client: int) -> State:
        """A copy of what one client holds, on the device."""
        return {path: self.weights[first][client].clone() for path, first in self.template.first.items()}


def alike(received: Sequence[Received]) -> bool:
    """Whether clients received tensors of the same names, shapes and types, so that these can be stacked."""
    kinds = [{name: (tensor.shape, tensor.dtype) for name, tensor in one.items()} for one in received]
    return all(kind == kinds[0] for kind in kinds)


def _fill(target: Tensor, parts: Sequence[Tensor]) -> None:
    """Put one tensor per client into the rows of ``target``; the first fills the rows that are left."""
    if all(part is parts[0] for part in parts):
        target.copy_(sent(parts[0], target.device))
        return
    here = [row for row, part in enumerate(parts) if part.device == target.device]
    away = [row for row, part in enumerate(parts) if part.device != target.device]
    for rows in (here, away):
        if len(rows) == len(parts):
            target[: len(parts)] = sent_together(parts, target.device)
        elif rows:
            places = sent(torch.tensor(rows), target.device)
            target.index_copy_(0, places, sent_together([parts[row] for row in rows], target.device).to(target.dtype))
    if len(parts) < len(target):
        target[len(parts) :] = target[:1]
