"""The samples of many clients in one tensor, of which every client knows its own rows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from potluck.data.examples import Examples

Source = tuple[Tensor, Tensor]
"""Inputs and labels."""


@dataclass(frozen=True)
class Pool:
    """Samples of several clients.

    Attributes:
        x: Inputs of all.
        y: Their labels.
        rows: Where the samples of each client are, [clients, most samples]; what is beyond a client's own is any row.
    """

    x: Tensor
    y: Tensor
    rows: Tensor


class Pools:
    """Makes pools for clients that step together.

    Clients of a run share one source, which is used as it is. Sources of their own are copied into one tensor, which
    stays where it is until it is too small: recorded steps read from it.
    """

    def __init__(self) -> None:
        self._joined: dict[str, tuple[list[Tensor], Source]] = {}
        self._only: dict[str, Source] = {}
        self._last: dict[str, tuple[Sequence[Examples], Pool]] = {}

    def of(self, name: str, examples: Sequence[Examples]) -> Pool:
        """The pool of the data called ``name`` of some clients; at least one of these has a sample."""
        known = self._last.get(name)
        if known is None or len(known[0]) != len(examples) or not all(map(operator.is_, known[0], examples)):
            known = self._last[name] = (examples, self._made(name, examples))
        return known[1]

    def _made(self, name: str, examples: Sequence[Examples]) -> Pool:
        sources = {_source(one): (one.whole_x, one.whole_y) for one in examples if len(one)}
        starts, start = {}, 0
        for key, (x, _) in sources.items():
            starts[key], start = start, start + len(x)
        x, y = next(iter(sources.values()))
        first_x, first_y = self._only.setdefault(name, (x, y))
        # Once joined, always joined: a recording knows one place.
        if len(sources) > 1 or name in self._joined or x is not first_x or y is not first_y:
            x, y = self._join(name, list(sources.values()), start)
        # A client without any samples is padding from the first to the last: anybody's will do.
        anything = next(one for one in examples if len(one)).only(torch.zeros(1, dtype=torch.int64, device=y.device))
        rows = [
            (torch.arange(len(one), device=x.device) if one.rows is None else one.rows) + starts[_source(one)]
            for one in (each if len(each) else anything for each in examples)
        ]
        return Pool(x, y, pad_sequence(rows, batch_first=True))

    def _join(self, name: str, sources: Sequence[Source], size: int) -> Source:
        parts = [tensor for pair in sources for tensor in pair]
        known, joined = self._joined.get(name, ([], None))
        if joined is not None and len(known) == len(parts) and all(map(operator.is_, known, parts)):
            return joined
        like = sources[0][0]
        if joined is None or len(joined[0]) < size or joined[0].dtype != like.dtype:
            room = 1 << (size - 1).bit_length()
            joined = (
                torch.zeros(room, *like.shape[1:], dtype=like.dtype, device=like.device),
                torch.zeros(room, dtype=torch.int64, device=like.device),
            )
        joined[0][:size] = torch.cat([x for x, _ in sources])
        joined[1][:size] = torch.cat([y.to(torch.int64) for _, y in sources])
        self._joined[name] = (parts, joined)
        return joined


def _source(examples: Examples) -> tuple[int, int]:
    return id(examples.whole_x), id(examples.whole_y)
