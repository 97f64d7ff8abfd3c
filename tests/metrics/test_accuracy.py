"""Scores, against scikit-learn, a confusion matrix, and a slow literal computation from the samples themselves."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from torch import Tensor

from potluck.dispatch import Watching
from potluck.metrics.accuracy import Scores, scores, tally


def literal(predicted: list[int], true: list[int], classes: int) -> Scores:
    pairs = list(zip(predicted, true, strict=True))
    recalls, f1s = [], []
    for label in range(classes):
        hits = sum(p == t == label for p, t in pairs)
        misses = sum(t == label != p for p, t in pairs)
        alarms = sum(p == label != t for p, t in pairs)
        if hits + misses:
            recalls.append(hits / (hits + misses))
        if hits + misses + alarms:
            precision = hits / (hits + alarms) if hits + alarms else 0.0
            recall = hits / (hits + misses) if hits + misses else 0.0
            f1s.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    correct = sum(p == t for p, t in pairs)
    return Scores(len(pairs), correct / len(pairs), sum(recalls) / len(recalls), sum(f1s) / len(f1s))


@st.composite
def samples(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Predictions and labels over some of the classes, so that others are absent, or predicted alone."""
    classes = draw(st.integers(1, 6))
    size = draw(st.integers(1, 30))
    labels = st.integers(0, classes - 1)
    some = draw(st.lists(labels, min_size=1, unique=True))
    predicted = draw(st.lists(labels, min_size=size, max_size=size))
    return predicted, draw(st.lists(st.sampled_from(some), min_size=size, max_size=size)), classes


@given(samples())
def test_scores_are_those_of_the_literal_computation(given_: tuple[list[int], list[int], int]) -> None:
    predicted, true, classes = given_
    found = scores(tally(torch.tensor(predicted), torch.tensor(true), classes))
    expected = literal(predicted, true, classes)
    assert found is not None
    assert found.samples == expected.samples
    assert found.accuracy == pytest.approx(expected.accuracy, abs=1e-12)
    assert found.balanced_accuracy == pytest.approx(expected.balanced_accuracy, abs=1e-12)
    assert found.macro_f1 == pytest.approx(expected.macro_f1, abs=1e-12)


def by_confusion_matrix(predicted: Tensor, true: Tensor, classes: int) -> Scores:
    """The same from all pairs of classes, operation by operation, so that equal counts give equal bits."""
    matrix = torch.bincount(true * classes + predicted, minlength=classes * classes).reshape(classes, classes)
    counts = matrix.numpy().astype(np.float64)
    correct, own, seen = counts.diagonal(), counts.sum(1), counts.sum(0)
    recall = correct[own > 0] / own[own > 0]
    f1 = 2 * correct[own + seen > 0] / (own + seen)[own + seen > 0]
    return Scores(len(true), float(correct.sum()) / len(true), float(recall.mean()), float(f1.mean()))


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("size", [1, 7, 100, 5000])
def test_scores_equal_those_of_a_confusion_matrix_and_of_scikit_learn(size: int, classes: int) -> None:
    some = torch.Generator().manual_seed(size * classes)
    for _ in range(5):
        present = torch.randperm(classes, generator=some)[: max(classes // 2, 1)]  # the others have no samples
        true = present[torch.randint(len(present), (size,), generator=some)]
        guess = torch.randint(classes, (size,), generator=some)
        predicted = torch.where(torch.rand(size, generator=some) < 0.5, true, guess)
        found = scores(tally(predicted, true, classes))
        assert found == by_confusion_matrix(predicted, true, classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "y_pred contains classes not in y_true"
            balanced = metrics.balanced_accuracy_score(true, predicted)
            f1 = metrics.f1_score(true, predicted, average="macro")
        assert found is not None
        assert found.accuracy == metrics.accuracy_score(true, predicted)
        assert found.balanced_accuracy == pytest.approx(balanced, abs=1e-15)
        assert found.macro_f1 == pytest.approx(f1, abs=1e-15)


def test_a_tally_counts_correct_true_and_predicted_samples_of_each_class() -> None:
    counts = tally(torch.tensor([1, 1, 2]), torch.tensor([0, 0, 2]), 3)
    assert counts.tolist() == [[0, 0, 1], [2, 0, 1], [0, 2, 1]]


def test_batches_add_up() -> None:
    predicted, true = torch.tensor([0, 1, 2, 2, 0]), torch.tensor([0, 1, 1, 2, 2])
    parts = tally(predicted[:2], true[:2], 3) + tally(predicted[2:], true[2:], 3)
    assert torch.equal(parts, tally(predicted, true, 3))


def test_clients_are_tallied_at_once_and_padding_does_not_count() -> None:
    predicted, true = torch.tensor([[0, 1, 2], [2, 0, 0]]), torch.tensor([[0, 0, 2], [2, 1, 0]])
    both = tally(predicted, true, 3, torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]))
    assert torch.equal(both[0], tally(predicted[0], true[0], 3))
    assert torch.equal(both[1], tally(predicted[1, :2], true[1, :2], 3))


def test_nothing_of_size_classes_times_classes_is_made() -> None:
    class Largest(Watching):  # type: ignore[no-untyped-call]  # PyTorch's own
        numbers = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            self.numbers = max(self.numbers, result.numel() if isinstance(result, Tensor) else 0)
            return result

    with Largest() as seen:  # type: ignore[no-untyped-call]  # PyTorch's own
        scores(tally(torch.tensor([1, 1, 2]), torch.tensor([0, 0, 2]), 20_000))
    assert 0 < seen.numbers <= 3 * 20_000


def test_without_samples_there_are_no_scores() -> None:
    empty = torch.empty(0, dtype=torch.int64)
    assert scores(tally(empty, empty, 3)) is None


def test_balanced_accuracy_is_not_accuracy() -> None:
    found = scores(torch.tensor([[90, 0], [90, 10], [100, 0]]))
    assert found is not None
    assert (found.accuracy, found.balanced_accuracy) == (0.9, 0.5)
    assert found.macro_f1 == pytest.approx((2 * 90 / 190 + 0) / 2)
