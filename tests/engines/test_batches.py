"""Which samples meet in which batch, and how they are augmented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from potluck import draws
from potluck.contract import Batch, Phase
from potluck.data.examples import Examples
from potluck.data.transform import Transform
from potluck.engines.batches import Inputs, epoch_batches, has_batch_norm, orders, plain_batches, sizes

from .made_up import cross_entropy, samples

CPU = torch.device("cpu")


def inputs(augmentation: str = "release", layout: torch.memory_format = torch.contiguous_format) -> Inputs:
    return Inputs(Transform(augmentation=augmentation), CPU, torch.float64, layout)


def epoch(
    examples: Examples,
    batch_sizes: Sequence[int],
    number: int = 0,
    key: int = 1,
    augmentation: str = "release",
    **how: Any,
) -> list[Batch]:
    phase = Phase(train=("body",), loss=cross_entropy, **how)
    return list(epoch_batches(examples, batch_sizes, key, number, phase, inputs(augmentation)))


def by_sample(batches: list[Batch], view: int = 0) -> Tensor:
    """Inputs in the order of the data set."""
    index = torch.cat([batch.index for batch in batches])
    return torch.cat([batch.views[view] for batch in batches])[index.argsort()]


def keys_by_sample(batches: list[Batch]) -> Tensor:
    index = torch.cat([batch.index for batch in batches])
    return torch.cat([batch.key for batch in batches])[index.argsort()]


@pytest.fixture
def images() -> Examples:
    return Examples(*samples(9, (2, 12, 12)))


@pytest.mark.parametrize(
    ("count", "batch_size", "drop_single", "expected"),
    [
        (8, 4, False, [4, 4]), (8, 4, True, [4, 4]), (9, 4, False, [4, 4, 1]), (9, 4, True, [4, 4]),
        (10, 4, True, [4, 4, 2]), (1, 4, True, [1]), (1, 4, False, [1]), (3, 4, True, [3]), (2, 1, True, [1, 1]),
        (0, 4, False, []),
    ],
)  # fmt: skip
def test_an_epoch_is_cut_into_batches(count: int, batch_size: int, drop_single: bool, expected: list[int]) -> None:
    assert sizes(count, batch_size, drop_single) == expected


def test_batch_norm_is_found_wherever_it_is() -> None:
    assert has_batch_norm(nn.Linear(1, 1), nn.Sequential(nn.Sequential(nn.BatchNorm2d(3))))
    assert has_batch_norm(nn.BatchNorm1d(3)) and has_batch_norm(nn.SyncBatchNorm(3))
    assert not has_batch_norm(nn.Linear(1, 1), nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.InstanceNorm2d(3))
    assert not has_batch_norm()


def test_every_epoch_has_an_order_of_its_own() -> None:
    seen = {tuple(orders(key, number, 20, CPU).tolist()) for key in (1, 2) for number in range(5)}
    assert len(seen) == 10
    assert all(sorted(order) == list(range(20)) for order in seen)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_epoch_visits_every_sample_once_with_its_own_label(images: Examples, number: int) -> None:
    batches = epoch(images, [4, 4, 1], number, augmentation="none")
    assert [len(batch.y) for batch in batches] == [4, 4, 1]
    assert torch.equal(by_sample(batches), images.x)
    for batch in batches:
        assert torch.equal(batch.y, images.y[batch.index])
        assert batch.weight.dtype == batch.x.dtype == torch.float64
        assert bool((batch.weight == 1).all())


def test_samples_are_augmented_alike_in_any_batch(images: Examples) -> None:
    small, large = epoch(images, [2, 2, 2, 2, 1]), epoch(images, [9])
    assert torch.equal(by_sample(small), by_sample(large))
    assert torch.equal(keys_by_sample(small), keys_by_sample(large))
    assert len(set(keys_by_sample(large).tolist())) == 9


def test_augmentation_and_keys_are_new_in_every_epoch_and_for_every_key(images: Examples) -> None:
    once, again = epoch(images, [9]), epoch(images, [9])
    assert torch.equal(by_sample(once), by_sample(again))
    for other in (epoch(images, [9], number=1), epoch(images, [9], key=2)):
        assert not torch.equal(by_sample(once), by_sample(other))
        assert not set(once[0].key.tolist()) & set(other[0].key.tolist())


def test_views_differ_and_come_back(images: Examples) -> None:
    batches = epoch(images, [4, 4, 1], views=3)
    views = [by_sample(batches, view) for view in range(3)]
    assert not any(torch.equal(views[a], views[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    again = epoch(images, [4, 4, 1], views=3)
    assert all(torch.equal(views[view], by_sample(again, view)) for view in range(3))
    assert torch.equal(views[0], by_sample(epoch(images, [9])))


def test_views_that_are_not_augmented_are_the_samples(images: Examples) -> None:
    choices: list[dict[str, Any]] = [{"augment": False}, {"data": "holdout"}, {"data": "public"}]
    for how in choices:
        batches = epoch(images, [9], views=2, **how)
        assert torch.equal(by_sample(batches, 0), images.x)
        assert torch.equal(by_sample(batches, 1), images.x)
    assert not torch.equal(by_sample(epoch(images, [9], data="holdout", augment=True)), images.x)


def test_rows_of_a_shared_source_are_counted_within_the_client(images: Examples) -> None:
    mine = images.only(torch.tensor([7, 2, 5]))
    (batch,) = epoch(mine, [3], augmentation="none")
    assert sorted(batch.index.tolist()) == [0, 1, 2]
    assert torch.equal(by_sample([batch]), images.x[[7, 2, 5]])
    expected = draws.spread(draws.fold(1, "step", 0), batch.index)
    assert torch.equal(batch.key, expected)


def test_all_samples_in_order_for_evaluating(images: Examples) -> None:
    batches = list(plain_batches(images, 4, inputs()))
    assert [len(batch.y) for batch in batches] == [4, 4, 1]
    assert torch.equal(torch.cat([batch.x for batch in batches]), images.x)
    assert torch.equal(torch.cat([batch.y for batch in batches]), images.y)
    assert torch.cat([batch.index for batch in batches]).tolist() == list(range(9))
    assert all(bool((batch.weight == 1).all()) for batch in batches)


def test_images_are_laid_out_as_asked_and_rows_are_left_alone(images: Examples) -> None:
    last = inputs("none", torch.channels_last)
    assert last.plain(images.x).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last.plain(images.x), images.x)
    assert last.plain(images.x.flatten(1)).is_contiguous()
    assert inputs("none").plain(images.x).is_contiguous()
