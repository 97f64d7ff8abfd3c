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


def confusion(predicted: Tensor, true: Tensor, classes: int) -> Tensor:
    """How often class i (rows) was predicted as class j (columns)."""
    return torch.bincount(true * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def scores(matrix: Tensor) -> Scores | None:
    """Scores from a confusion matrix; ``None`` without any sample.

    >>> scores(torch.tensor([[3, 1, 0], [0, 1, 0], [0, 0, 0]]))
    Scores(samples=5, accuracy=0.8, balanced_accuracy=0.875, macro_f1=0.7619047619047619)
    """
    # In NumPy: for so few numbers an operation of PyTorch takes ten times as long to begin as to do.
    counts = matrix.cpu().numpy().astype(np.float64)
    samples = int(counts.sum())
    if samples == 0:
        return None
    correct, true, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    present, seen = true > 0, true + predicted > 0
    recall = correct[present] / true[present]
    f1 = 2 * correct[seen] / (true + predicted)[seen]
    return Scores(samples, float(correct.sum()) / samples, float(recall.mean()), float(f1.mean()))
