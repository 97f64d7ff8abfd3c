"""Splits into pools."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from potluck.data.examples import Examples
from potluck.data.sources import Source
from potluck.data.splits import POOLS, hold_out, pools, set_aside
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


def test_official_keeps_both_official_sets() -> None:
    parts = pools(made(torch.arange(30) % 10, test_from=20), "official", key=3)
    assert {pool: rows.tolist() for pool, rows in parts.items()} == {
        "train": list(range(20)),
        "validation": [],
        "test": list(range(20, 30)),
    }
    with pytest.raises(DataError, match=r"made has no official test set for split 'official': use a ratio"):
        pools(made(torch.arange(100) % 10), "official", key=0)


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
    with pytest.raises(ConfigError, match=r"neither 'release' nor 'official' nor .*'8:1:1'.*'8:2'"):
        pools(made(torch.arange(100) % 10), split, key=0)


def test_a_ratio_that_leaves_a_pool_empty() -> None:
    with pytest.raises(DataError, match="without a test sample"):
        pools(made(torch.arange(20) % 10), "8:1:1", key=0)


# ---- samples set aside --------------------------------------------------------------------------------------------


@given(counts=st.lists(st.integers(0, 50), min_size=1, max_size=8), share=st.floats(0, 1), key=st.integers(0, 1 << 62))
def test_what_is_set_aside_is_exact_and_has_the_classes_shares(counts: list[int], share: float, key: int) -> None:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(key % 1000))]
    wanted = int(share * len(labels))
    if not wanted < len(labels):
        with pytest.raises(DataError, match="set 'public' lower"):
            set_aside(labels, wanted, key)
        return
    stay, aside = set_aside(labels, wanted, key)
    assert len(aside) == wanted
    assert sorted(stay.tolist() + aside.tolist()) == list(range(len(labels)))
    assert stay.tolist() == sorted(stay.tolist())
    for label, count in enumerate(counts):
        assert abs(int((labels[aside] == label).sum()) - wanted * count / len(labels)) <= 1
    again = set_aside(labels, wanted, key)
    assert torch.equal(again[0], stay)
    assert torch.equal(again[1], aside)


def test_samples_are_set_aside_at_random() -> None:
    labels = torch.zeros(1000, dtype=torch.int64)
    first, second = (set_aside(labels, 300, key)[1] for key in (1, 2))
    assert 60 < len(set(first.tolist()) & set(second.tolist())) < 120
    assert 120 < (first < 500).sum() < 180


def test_held_out_samples() -> None:
    whole = Examples(torch.arange(40.0), torch.arange(40) % 2, rows=torch.arange(39, -1, -2))
    for share, count in ((0.05, 1), (0.5, 10), (0.001, 1), (0.999, 19)):
        kept, held = hold_out(whole, share, key=4)
        assert (len(kept), len(held)) == (20 - count, count)
        rows = torch.cat([kept.rows, held.rows])  # type: ignore[list-item]
        assert sorted(rows.tolist()) == sorted(whole.rows.tolist())  # type: ignore[union-attr]
    one, two = (hold_out(whole, 0.5, key)[1].rows for key in (4, 5))
    assert one is not None
    assert two is not None
    assert not torch.equal(one, two)
