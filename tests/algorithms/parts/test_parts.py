"""What algorithms are made of: where it could go wrong."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from potluck import Batch, Networks, Payload, Task
from potluck.algorithms import Upload
from potluck.algorithms.parts.class_means import check_class_means, class_means, class_sums
from potluck.algorithms.parts.class_table import nearest_prototype
from potluck.algorithms.parts.contrastive import normalised, supervised_contrastive
from potluck.algorithms.parts.probabilities import check_probabilities
from potluck.algorithms.parts.proximal import distance, squared_distance
from potluck.algorithms.parts.small_model import small_model
from potluck.errors import ConfigError, PayloadError


def batch(labels: list[int], weights: list[float] | None = None) -> Batch:
    y = torch.tensor(labels)
    weight = torch.ones(len(y)) if weights is None else torch.tensor(weights)
    return Batch((torch.zeros(len(y), 1),), y, weight, torch.arange(len(y)), torch.arange(len(y)))


def test_distance_has_a_gradient_where_nothing_has_moved() -> None:
    net = Networks({"head": nn.Linear(3, 2), "body": nn.Linear(2, 3)})
    received = net.state("head")
    distance(net, received, "head").backward()  # type: ignore[no-untyped-call]
    for parameter in net.parameters("head").values():
        assert parameter.grad is not None
        assert not parameter.grad.any()
    moved = {path: tensor + 2 for path, tensor in received.items()}
    assert float(distance(net, moved, "head").detach()) == pytest.approx((4 * 8) ** 0.5)
    assert float(squared_distance(net, {**moved, **net.state("body")}, "head", "body").detach()) == pytest.approx(32)


def test_class_means_leave_out_padding_and_absent_classes() -> None:
    values = torch.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 5.0], [9.0, 9.0]])
    sums = class_sums(values, batch([2, 2, 0, 1], [1, 1, 1, 0]), classes=4)
    assert sums["counts"].tolist() == [1, 0, 2, 0]
    means = class_means(sums)
    assert means["labels"].tolist() == [0, 2]
    assert means["labels"].dtype == torch.int32  # counted as one number each, as the papers do
    assert means["means"].tolist() == [[5, 5], [2, 4]]


@pytest.mark.parametrize(
    "labels", [[1, 0], [0, 0], [-1, 2], [0, 4], []], ids=["order", "twice", "negative", "too large", "none"]
)
def test_labels_that_are_no_classes_are_refused(labels: list[int]) -> None:
    sent = {"means": torch.zeros(len(labels), 5), "labels": torch.tensor(labels, dtype=torch.int32)}
    with pytest.raises(PayloadError, match="client 3 sent labels that are no ascending classes from 0 to 3"):
        check_class_means(Upload(3, Payload(sent)), width=5, classes=4, dtype=torch.float32)


def test_other_tensors_are_refused() -> None:
    with pytest.raises(PayloadError, match=r"client 1 sent \['means'\], expected \['labels', 'means'\]"):
        check_class_means(Upload(1, Payload({"means": torch.zeros(1, 5)})), 5, 4, torch.float32)


def test_contrast_of_one_sample_is_zero() -> None:
    """Its only positive is the other view, and there is nothing to be told from."""
    z = normalised(torch.randn(1, 8))
    assert float(supervised_contrastive(z, normalised(torch.randn(1, 8)), batch([0]), 0.07)) == pytest.approx(0)


def test_contrast_prefers_classes_apart() -> None:
    together, apart = torch.eye(2)[[0, 0, 0, 0]], torch.eye(2)[[0, 0, 1, 1]]
    labels = batch([0, 0, 1, 1])
    losses = [float(supervised_contrastive(z, z, labels, 0.1)) for z in (together, apart)]
    assert losses == [pytest.approx(math.log(7)), pytest.approx(math.log(3), abs=1e-3)]


def test_contrast_of_nothing_but_padding_is_finite() -> None:
    z = torch.randn(3, 4, requires_grad=True)
    loss = supervised_contrastive(normalised(z), normalised(z), batch([0, 1, 1], [0, 0, 0]), 0.07)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()


def test_normalising_nothing_stays_nothing() -> None:
    assert normalised(torch.zeros(2, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("name", "shape", "width", "expected"),
    [
        ("auto", (3, 32, 32), 500, 665_048),  # CNN-5 without its header, as pFedAFM's paper has it
        ("auto", (3, 32, 32), 512, 665_048 + 12 * 501),
        ("auto", (20,), 16, 20 * 16 + 16),
        ("auto", (2, 6, 6), None, 72 * 64 + 64),
        ("cnn-4", (3, 32, 32), None, 1_055_348),
    ],
)
def test_small_models(name: str, shape: tuple[int, ...], width: int | None, expected: int) -> None:
    body = small_model(name, Task(shape, 10), width)["body"]
    assert sum(parameter.numel() for parameter in body.parameters()) == expected


@pytest.mark.parametrize("name", ["mlp-64", "cnn-5@64"])
def test_a_small_model_of_another_width(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"algorithm.small_model: {name} gives representations of 64 .* mlp-500"):
        small_model(name, Task((3, 32, 32), 10), 500)


@pytest.mark.parametrize("values", [[[0.5, 0.6]], [[1.5, -0.5]], [[0.5, 0.5], [0.1, 0.2]]])
def test_what_are_no_probabilities_is_refused(values: list[list[float]]) -> None:
    check_probabilities(0, "means", torch.randn(50, 2000).softmax(1))
    with pytest.raises(PayloadError, match="client 3 sent 'means' that are no probabilities"):
        check_probabilities(3, "means", torch.tensor(values))


def test_the_nearest_prototype() -> None:
    values = torch.tensor([[0.0, 0.0], [4.0, 0.0], [1.0, 2.0]])
    received = {"values": values, "known": torch.tensor([1.0, 1.0, 0.0])}
    logits = nearest_prototype(torch.tensor([[1.0, 2.0], [3.0, 1.0]]), received, torch.zeros(2, 3))
    assert logits.argmax(1).tolist() == [0, 1]
    torch.testing.assert_close(logits[:, :2], torch.tensor([[-2.5, -6.5], [-5.0, -1.0]]))
    none = {"values": values, "known": torch.zeros(3)}
    assert nearest_prototype(torch.zeros(2, 2), none, torch.ones(2, 3)).tolist() == [[1, 1, 1], [1, 1, 1]]
