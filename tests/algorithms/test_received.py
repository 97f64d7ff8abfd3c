"""What a client receives is checked: a table of another shape would train without a word."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from potluck import Payload, Task
from potluck.algorithms import algorithm
from potluck.errors import PayloadError

TASK = Task((5,), classes=4, public=3, width=4)
VALUES, LABELS = torch.rand(2, 4), torch.tensor([0, 2], dtype=torch.int32)

TABLES: dict[str, tuple[dict[str, Tensor], str]] = {
    "width 1": ({"values": VALUES[:, :1], "labels": LABELS}, r"'values' has shape \(2, 1\), expected \(2, 4\)"),
    "wider": ({"values": torch.rand(2, 5), "labels": LABELS}, r"'values' has shape \(2, 5\)"),
    "no width": ({"values": VALUES[:, 0], "labels": LABELS}, r"'values' has shape \(2,\)"),
    "more values than labels": ({"values": torch.rand(3, 4), "labels": LABELS}, r"'values' has shape \(3, 4\)"),
    "labels with fractions": ({"values": VALUES, "labels": LABELS.float()}, "'labels' is of type torch.float32"),
    "a table of labels": ({"values": VALUES, "labels": LABELS.view(1, 2)}, r"'labels' has shape \(1, 2\)"),
    "whole numbers": ({"values": VALUES.int(), "labels": LABELS}, "'values' is of type torch.int32"),
    "a class that is not there": ({"values": VALUES, "labels": LABELS + 2}, "not from 0 to 3"),
    "NaN": ({"values": VALUES * torch.nan, "labels": LABELS}, "'values' holds numbers that are not finite"),
    "no labels": ({"values": VALUES}, "'labels' is missing"),
    "more": ({"values": VALUES, "labels": LABELS, "more": VALUES}, "'more' was not expected"),
}


@pytest.mark.parametrize("method", ["fd", "fedproto", "fedtgp"])
@pytest.mark.parametrize("what", TABLES)
def test_a_table_by_class(method: str, what: str) -> None:
    tensors, said = TABLES[what]
    with pytest.raises(PayloadError, match=said):
        algorithm(method).receive(Payload(tensors), TASK)


@pytest.mark.parametrize("method", ["fd", "fedproto", "fedtgp"])
def test_a_table_by_class_that_fits(method: str) -> None:
    received = algorithm(method).receive(Payload({"values": VALUES, "labels": LABELS}), TASK)
    assert received["known"].tolist() == [1, 0, 1, 0]
    assert torch.equal(received["values"][[0, 2]], VALUES)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"target": torch.rand(3, 1)}, r"'target' has shape \(3, 1\), expected \(3, 4\)"),
        ({"target": torch.rand(1, 4)}, r"'target' has shape \(1, 4\)"),
        ({"target": torch.ones(3, 4, dtype=torch.int64)}, "'target' is of type torch.int64"),
        ({"target": torch.full((3, 4), torch.inf)}, "'target' holds numbers that are not finite"),
        ({"mixture": torch.rand(3, 4)}, "'target' is missing"),
        ({"target": torch.rand(3, 4), "more": torch.rand(1)}, "'more' was not expected"),
    ],
)
def test_predictions_on_public_data(tensors: dict[str, Tensor], said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        algorithm("kt-pfl").receive(Payload(tensors), TASK)


def test_predictions_on_public_data_that_fit() -> None:
    target = torch.rand(3, 4)
    assert algorithm("kt-pfl").receive(Payload({"target": target}), TASK)["target"] is target
    assert not algorithm("kt-pfl").receive(Payload(), TASK)  # before the first round
