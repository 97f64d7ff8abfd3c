"""Clients of a stack over all their samples in order, to evaluate them or to collect a statistic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.algorithms import Algorithm
from potluck.contract import Batch
from potluck.data.transform import Transform
from potluck.engines.batches import EVALUATION_BATCH
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.operations import Operations
from potluck.engines.stacked.schedule import stable_width
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Template, Weights
from potluck.engines.stacked.transfer import sent

_AT_ONCE = 4096
"""So many samples at once, of as many clients as that allows."""


def predict_batch(
    template: Template, algorithm: Algorithm, weights: Weights, received: Weights, x: Tensor, weight: Tensor
) -> Tensor:
    """Logits of stacked clients for a batch of each."""

    def predict(own: Weights, arrived: Weights, inputs: Tensor, counts: Tensor) -> Tensor:
        with template.norms.seeing(counts), Operations(), template.precision.autocast():
            return algorithm.predict(template.networks(own), inputs, arrived).to(x.dtype)

    logits: Tensor = torch.func.vmap(predict)(weights, received, x, weight)
    return logits


def collect_batch(
    template: Template, algorithm: Algorithm, weights: Weights, received: Weights, x: Tensor, y: Tensor,
    weight: Tensor, index: Tensor,
) -> dict[str, Tensor]:  # fmt: skip
    """The statistic of stacked clients for a batch of each."""

    def collect(own: Weights, arrived: Weights, *parts: Tensor) -> dict[str, Tensor]:
        inputs, labels, counts, places = parts
        with template.norms.seeing(counts), Operations():
            return algorithm.collect(template.networks(own), Batch((inputs,), labels, counts, places, places), arrived)

    sums: dict[str, Tensor] = torch.func.vmap(collect)(weights, received, x, y, weight, index)
    return sums


@dataclass(frozen=True)
class Reader:
    """Reads the samples of stacked clients.

    Batches are cut as on any engine: a network may look at its whole batch.
    """

    stack: Stack
    algorithm: Algorithm
    transform: Transform
    dtype: torch.dtype

    @torch.no_grad()
    def confusions(self, pool: Pool, samples: Sequence[int]) -> Tensor:
        """How often each client predicted class i (rows) as class j (columns), [clients, classes, classes]."""
        template, classes = self.stack.template, self.stack.template.task.classes
        template.train(())
        counts = torch.zeros(len(samples), classes * classes, dtype=torch.int64, device=self.stack.device)
        for clients, rows, _, weight in self._batches(pool, samples):
            x, y = self._samples(pool, rows)
            weights, received = self._clients(clients)
            logits = predict_batch(template, self.algorithm, weights, received, x, weight)
            counts[clients].scatter_add_(1, y * classes + logits.argmax(2), weight.to(torch.int64))
        return counts.view(len(samples), classes, classes)

    @torch.no_grad()
    def collected(self, pool: Pool, samples: Sequence[int]) -> dict[str, Tensor]:
        """The sum of the algorithm's statistic over all samples of each client."""
        template = self.stack.template
        template.train(())
        parts: dict[int, dict[str, Tensor]] = {}
        for clients, rows, index, weight in self._batches(pool, samples):
            x, y = self._samples(pool, rows)
            weights, received = self._clients(clients)
            found = collect_batch(template, self.algorithm, weights, received, x, y, weight, index)
            total = parts.setdefault(clients.start, found)
            if total is not found:
                # Who is out of samples has nothing to add, whatever a statistic makes of nothing.
                out = weight[:, 0] == 0
                for name, value in found.items():
                    rest = value.masked_fill(out.view(-1, *(1 for _ in value.shape[1:])), 0)
                    total[name] = total[name] + rest
        return {name: torch.cat([part[name] for part in parts.values()]) for name in next(iter(parts.values()))}

    def _clients(self, clients: slice) -> tuple[Weights, Weights]:
        weights = {path: tensor[clients] for path, tensor in self.stack.weights.items()}
        return weights, {name: tensor[clients] for name, tensor in self.stack.received.items()}

    def _samples(self, pool: Pool, rows: Tensor) -> tuple[Tensor, Tensor]:
        flat = rows.flatten()
        x = self.transform.plain(pool.x.index_select(0, flat), self.dtype)
        return x.view(*rows.shape, *x.shape[1:]), pool.y.index_select(0, flat).to(torch.int64).view(rows.shape)

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
                yield clients, pool.rows[clients].gather(1, index), index, there.to(self.dtype)
