"""What stacked clients make of a batch of each: their predictions, and the statistic that an algorithm collects."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from potluck.algorithms import Algorithm
from potluck.contract import Batch
from potluck.engines.stacked.operations import Operations
from potluck.engines.stacked.template import Template, Weights
from potluck.metrics.accuracy import tally

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
    """Per class: correct predictions, samples, predictions of each stacked client in its batch."""
    predicted = predict_batch(template, algorithm, weights, received, batch).argmax(2)
    return {"counts": tally(predicted, batch.y, template.task.classes, batch.weight)}


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
