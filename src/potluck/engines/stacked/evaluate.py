"""Clients of a stack over all their samples in order, to evaluate them or to collect a statistic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.engines.base import Setting
from potluck.engines.batches import EVALUATION_BATCH
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.examination import Examination, members, samples_of
from potluck.engines.stacked.reading import collect_batch
from potluck.engines.stacked.schedule import stable_width
from potluck.engines.stacked.track import Track
from potluck.engines.stacked.transfer import sent

_AT_ONCE = 4096
"""So many samples at once, of as many clients as that allows."""


@dataclass(frozen=True)
class Reader:
    """Reads the samples of stacked clients.

    Batches are cut as on any engine: a network may look at its whole batch.
    """

    track: Track
    setting: Setting

    def confusions(self, pool: Pool, samples: Sequence[int]) -> Tensor:
        """How often each client predicted class i (rows) as class j (columns), [clients, classes, classes]."""
        classes = self.setting.task.classes
        counts = torch.zeros(len(samples), classes, classes, dtype=torch.int64, device=self.setting.device)
        for clients, rows, _, weight in self._batches(pool, samples):
            counts[clients] += self._examination(pool, clients, rows.shape[1]).counts(rows, weight)
        return counts

    def _examination(self, pool: Pool, clients: slice, width: int) -> Examination:
        def make() -> Examination:
            return Examination(self.track.stack, self.setting, pool, clients, width, self.track.studio)

        # Data that have one source, such as those to test and to validate on, also have one recording.
        return self.track.kept(("examination", id(pool.x), id(pool.y), clients.start, clients.stop, width), make)

    @torch.no_grad()
    def collected(self, pool: Pool, samples: Sequence[int]) -> dict[str, Tensor]:
        """The sum of the algorithm's statistic over all samples of each client."""
        stack, setting = self.track.stack, self.setting
        stack.template.train(())
        parts: dict[int, dict[str, Tensor]] = {}
        for clients, rows, index, weight in self._batches(pool, samples):
            x, y = samples_of(pool, rows, setting)
            found = collect_batch(
                stack.template, setting.algorithm, *members(stack, clients), x, y, weight, index
            )  # fmt: skip
            total = parts.setdefault(clients.start, found)
            if total is not found:
                # Who is out of samples has nothing to add, whatever a statistic makes of nothing.
                out = weight[:, 0] == 0
                for name, value in found.items():
                    rest = value.masked_fill(out.view(-1, *(1 for _ in value.shape[1:])), 0)
                    total[name] = total[name] + rest
        return {name: torch.cat([part[name] for part in parts.values()]) for name in next(iter(parts.values()))}

    def _batches(self, pool: Pool, samples: Sequence[int]) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """Some clients, and of each the rows, positions and weights of a batch."""
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
                yield clients, pool.rows[clients].gather(1, index), index, there.to(self.setting.dtype)
