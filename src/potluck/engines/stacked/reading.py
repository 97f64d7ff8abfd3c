"""What stacked clients make of a batch of each: their predictions, and the statistic that an algorithm collects."""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.algorithms import Algorithm
from potluck.contract import Batch
from potluck.engines.stacked.operations import Operations
from potluck.engines.stacked.template import Template, Weights


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
