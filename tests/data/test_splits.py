"""Splits into pools."""

from __future__ import annotations

import pytest
import torch

from potluck.data.sources import Source
from potluck.data.splits import POOLS, pools
from potluck.errors import ConfigError, DataError


def made(labels: torch.Tensor, test_from: int | None = None) -> Source:
    return Source(
        name="made",
        x=torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8),
        y=labels,
        class_names=tuple("abcdefghij"),
        mean=(0.0,),
        std=(1.0,),
        test_from=test_from,
    )


def joined(parts: dict[str, torch.Tensor]) -> list[int]:
    return sorted(torch.cat(list(parts.values())).tolist())


def test_release_keeps_the_official_test_set() -> None:
    source = made(torch.arange(13_000) % 10, test_from=12_000)
    parts = pools(source, "release", key=3)
    assert {pool: len(rows) for pool, rows in parts.items()} == {"train": 2000, "validation": 10_000, "test": 1000}
    assert parts["test"].tolist() == list(range(12_000, 13_000))
    assert joined(parts) == list(range(13_000))
    # At random: about a sixth of any stretch is left for training.
    assert 250 < (parts["train"] < 2000).sum() < 420


def test_release_needs_an_official_split_large_enough() -> None:
    with pytest.raises(DataError, match=r"made has no official test set.*8:1:1"):
        pools(made(torch.arange(100) % 10), "release", key=0)
    with pytest.raises(DataError, match=r"takes 10,000 .* has only 10,000"):
        pools(made(torch.arange(10_100) % 10, test_from=10_000), "release", key=0)


@pytest.mark.parametrize(
    ("split", "expected"),
    [("8:1:1", (80, 10, 10)), ("8:2", (80, 0, 20)), ("4:1:1", (67, 16, 17)), ("1:0:1", (50, 0, 50))],
)
def test_ratios_cut_every_class(split: str, expected: tuple[int, int, int]) -> None:
    source = made(torch.arange(1000) % 10, test_from=900)
    parts = pools(source, split, key=1)
    assert tuple(parts) == POOLS
    assert joined(parts) == list(range(1000))
    for pool, count in zip(POOLS, expected, strict=True):
        assert torch.bincount(source.y[parts[pool]], minlength=10).tolist() == [count] * 10
        assert parts[pool].dtype == torch.int64


def test_uneven_classes_lose_nothing() -> None:
    source = made(torch.tensor([0] * 7 + [1] * 1 + [3] * 13 + [9] * 2))
    parts = pools(source, "8:1:1", key=0)
    assert joined(parts) == list(range(23))
    for label, count in ((0, 7), (1, 1), (3, 13), (9, 2)):
        assert abs(int((source.y[parts["train"]] == label).sum()) - 0.8 * count) <= 0.5


@pytest.mark.parametrize("split", ["release", "8:1:1"])
def test_drawn_from_the_key_alone(split: str) -> None:
    source = made(torch.arange(11_000) % 10, test_from=10_500)
    torch.manual_seed(0)
    one = pools(source, split, key=1)
    state = torch.random.get_rng_state()
    torch.manual_seed(1)
    assert all(torch.equal(one[pool], rows) for pool, rows in pools(source, split, key=1).items())
    assert not torch.equal(one["train"], pools(source, split, key=2)["train"])
    torch.manual_seed(0)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "split", ["", "8", "8:", ":2", "8:1:1:1", "8:-1:3", "8.5:1.5", "a:b", "0:1:1", "8:0", "Release", "8/2"]
)
def test_bad_specifications_get_examples(split: str) -> None:
    with pytest.raises(ConfigError, match=r"neither 'release' nor .*'8:1:1'.*'8:2'"):
        pools(made(torch.arange(100) % 10), split, key=0)


def test_a_ratio_that_leaves_a_pool_empty() -> None:
    with pytest.raises(DataError, match="without a test sample"):
        pools(made(torch.arange(20) % 10), "8:1:1", key=0)
