"""Clients of a stack over all their samples in order, to evaluate them or to collect a statistic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.engines.base import Setting
from potluck.engines.batches import EVALUATION_BATCH
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.examination import Examination
from potluck.engines.stacked.reading import Reading, collect_batch, count_batch
from potluck.engines.stacked.schedule import stable_width
from potluck.engines.stacked.track import Track
from potluck.engines.stacked.transfer import sent

_AT_ONCE = 4096
"""So many samples at once, of as many clients as that allows."""

_Batch = tuple[Tensor, Tensor, Tensor]
"""Samples of some clients: where they are in the pool, which of a client's own they are, and whether they count."""


@dataclass(frozen=True)
class Reader:
    """Reads the samples of stacked clients.

    Batches are cut as on any engine: a network may look at its whole batch.
    """

    track: Track
    setting: Setting

    def tallies(self, pool: Pool, samples: Sequence[int]) -> Tensor:
        """Per class: correct predictions, samples, predictions of each client, as [clients, 3, classes]."""
        classes = self.setting.task.classes
        counts = torch.zeros(len(samples), 3, classes, dtype=torch.int64, device=self.setting.device)
        for clients, batch in self._batches(pool, samples):
            counts[clients] += self._examination(count_batch, pool, clients, batch).of(*batch)["counts"]
        return counts

    @torch.no_grad()
    def collected(self, pool: Pool, samples: Sequence[int]) -> dict[str, Tensor]:
        """The sum of the algorithm's statistic over all samples of each client."""
        parts: dict[int, dict[str, Tensor]] = {}
        for clients, batch in self._batches(pool, samples):
            found = self._examination(collect_batch, pool, clients, batch).of(*batch)
            if clients.start not in parts:
                parts[clients.start] = {name: value.clone() for name, value in found.items()}
                continue
            # Who is out of samples has nothing to add, whatever a statistic makes of nothing.
            out = batch[-1][:, 0] == 0
            for name, value in found.items():
                parts[clients.start][name] += value.masked_fill(out.view(-1, *(1 for _ in value.shape[1:])), 0)
        return {name: torch.cat([part[name] for part in parts.values()]) for name in next(iter(parts.values()))}

    def _examination(self, reading: Reading, pool: Pool, clients: slice, batch: _Batch) -> Examination:
        width = batch[0].shape[1]

        def make() -> Examination:
            return Examination(reading, self.track.stack, self.setting, pool, clients, width, self.track.studio)

        # Data that have one source, such as those to test and to validate on, also have one recording.
        return self.track.kept(reading, (id(pool.x), id(pool.y), clients.start, clients.stop, width), make)

    def _batches(self, pool: Pool, samples: Sequence[int]) -> Iterator[tuple[slice, _Batch]]:
        """Some clients, and a batch of each."""
        widest = stable_width(max(samples), EVALUATION_BATCH)
        at_once = max(_AT_ONCE // widest, 1)
        device = pool.rows.device
        sizes = sent(torch.tensor(samples), device).unsqueeze(1)
        place = torch.arange(widest, device=device)
        for first in range(0, len(samples), at_once):
            clients = slice(first, min(first + at_once, len(samples)))
            for start in range(0, max(samples[clients]), EVALUATION_BATCH):
                position = start + place
                there = position < sizes[clients]
                index = torch.where(there, position, 0)
                yield clients, (pool.rows[clients].gather(1, index), index, there.to(self.setting.dtype))
