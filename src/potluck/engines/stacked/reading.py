"""What stacked clients make of a batch of each: their predictions, and the statistic that an algorithm collects."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from potluck.algorithms import Algorithm
from potluck.contract import Batch
from potluck.engines.stacked.operations import Operations
from potluck.engines.stacked.template import Template, Weights

Reading = Callable[[Template, Algorithm, Weights, Weights, Batch], dict[str, Tensor]]
"""What is found in a batch of each client, by what these hold and received."""


def predict_batch(
    template: Template, algorithm: Algorithm, weights: Weights, received: Weights, batch: Batch
) -> Tensor:  # fmt: skip
    """Logits of stacked clients for a batch of each."""

    def predict(own: Weights, arrived: Weights, inputs: Tensor, counts: Tensor) -> Tensor:
        with template.norms.seeing(counts), Operations(), template.precision.autocast():
            return algorithm.predict(template.networks(own), inputs, arrived).to(batch.x.dtype)

    logits: Tensor = torch.func.vmap(predict)(weights, received, batch.x, batch.weight)
    return logits


def count_batch(
    template: Template, algorithm: Algorithm, weights: Weights, received: Weights, batch: Batch
) -> dict[str, Tensor]:  # fmt: skip
    """How often each stacked client predicts class i (rows) as class j (columns) in its batch."""
    classes = template.task.classes
    cells = batch.y * classes + predict_batch(template, algorithm, weights, received, batch).argmax(2)
    counts = torch.zeros(len(cells), classes * classes, dtype=torch.int64, device=cells.device)
    return {"counts": counts.scatter_add_(1, cells, batch.weight.to(torch.int64)).view(-1, classes, classes)}


def collect_batch(
    template: Template, algorithm: Algorithm, weights: Weights, received: Weights, batch: Batch
) -> dict[str, Tensor]:  # fmt: skip
    """The statistic of stacked clients for a batch of each."""

    def collect(own: Weights, arrived: Weights, *parts: Tensor) -> dict[str, Tensor]:
        inputs, labels, counts, places = parts
        with template.norms.seeing(counts), Operations():
            return algorithm.collect(template.networks(own), Batch((inputs,), labels, counts, places, places), arrived)

    parts = batch.x, batch.y, batch.weight, batch.index
    sums: dict[str, Tensor] = torch.func.vmap(collect)(weights, received, *parts)
    return sums
