"""Scores, against a slow literal computation from the samples themselves."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck.metrics.accuracy import Scores, confusion, scores


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


@settings(deadline=None)
@given(samples())
def test_scores_are_those_of_the_literal_computation(given_: tuple[list[int], list[int], int]) -> None:
    predicted, true, classes = given_
    found = scores(confusion(torch.tensor(predicted), torch.tensor(true), classes))
    expected = literal(predicted, true, classes)
    assert found is not None
    assert found.samples == expected.samples
    assert found.accuracy == pytest.approx(expected.accuracy, abs=1e-12)
    assert found.balanced_accuracy == pytest.approx(expected.balanced_accuracy, abs=1e-12)
    assert found.macro_f1 == pytest.approx(expected.macro_f1, abs=1e-12)


def test_rows_are_true_classes_and_columns_predicted_ones() -> None:
    matrix = confusion(torch.tensor([1, 1, 2]), torch.tensor([0, 0, 2]), 3)
    assert matrix.tolist() == [[0, 2, 0], [0, 0, 0], [0, 0, 1]]


def test_batches_add_up() -> None:
    predicted, true = torch.tensor([0, 1, 2, 2, 0]), torch.tensor([0, 1, 1, 2, 2])
    parts = confusion(predicted[:2], true[:2], 3) + confusion(predicted[2:], true[2:], 3)
    assert torch.equal(parts, confusion(predicted, true, 3))


def test_without_samples_there_are_no_scores() -> None:
    empty = torch.empty(0, dtype=torch.int64)
    assert scores(confusion(empty, empty, 3)) is None


def test_balanced_accuracy_is_not_accuracy() -> None:
    found = scores(torch.tensor([[90, 0], [10, 0]]))
    assert found is not None
    assert (found.accuracy, found.balanced_accuracy) == (0.9, 0.5)
    assert found.macro_f1 == pytest.approx((2 * 90 / 190 + 0) / 2)
