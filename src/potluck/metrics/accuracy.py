"""How well one client predicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Scores:
    """Scores of one client on its own samples.

    Attributes:
        samples: How many samples were predicted.
        accuracy: Correct over all samples.
        balanced_accuracy: Mean over the classes present of correct over the class's samples.
        macro_f1: Mean F1 over the classes present or predicted.
    """

    samples: int
    accuracy: float
    balanced_accuracy: float
    macro_f1: float


@dataclass(frozen=True)
class Evaluation:
    """How well a client predicts its own test and validation samples; ``None`` where it has none."""

    client: int
    test: Scores | None
    validation: Scores | None


def tally(predicted: Tensor, true: Tensor, classes: int, weight: Tensor | None = None) -> Tensor:
    """Per class, how many samples were predicted correctly, belong to it, and were predicted as it: [..., 3, classes].

    Tallies of batches add up. Several clients are counted at once if the samples are the last dimension of each.

    Args:
        predicted: The predicted classes.
        true: The labels.
        classes: How many classes there are.
        weight: 1 for samples that count and 0 for padding; by default all of them count.

    >>> tally(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 3).tolist()
    [[1, 1, 0], [2, 1, 0], [1, 2, 0]]
    """
    one = torch.ones_like(true) if weight is None else weight.to(true.dtype)
    counts = torch.zeros(*true.shape[:-1], 3, classes, dtype=true.dtype, device=true.device)
    labels = torch.stack((true, true, predicted), -2)
    return counts.scatter_add_(-1, labels, torch.stack((one * (predicted == true), one, one), -2))


def scores(counts: Tensor) -> Scores | None:
    """Scores from a :func:`tally` of one client; ``None`` without any sample.

    >>> scores(torch.tensor([[3, 1, 0], [4, 1, 0], [3, 2, 0]]))
    Scores(samples=5, accuracy=0.8, balanced_accuracy=0.875, macro_f1=0.7619047619047619)
    """
    # In NumPy: for so few numbers an operation of PyTorch takes ten times as long to begin as to do.
    correct, true, predicted = counts.cpu().numpy().astype(np.float64)
    samples = int(true.sum())
    if samples == 0:
        return None
    present, seen = true > 0, true + predicted > 0
    recall = correct[present] / true[present]
    f1 = 2 * correct[seen] / (true + predicted)[seen]
    return Scores(samples, float(correct.sum()) / samples, float(recall.mean()), float(f1.mean()))
