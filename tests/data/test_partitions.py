"""Partitions: properties that hold for any number of clients and classes, and the errors."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from potluck.data.partitions import hold, names, partition
from potluck.errors import ConfigError, DataError

POOLS = ("train", "validation", "test")


@st.composite
def pathological_cases(draw: st.DrawFn) -> tuple[dict[str, Tensor], int, int, int, int]:
    """Labels of three pools, classes, classes per client, clients and a key, with no regard for what divides what."""
    classes = draw(st.integers(1, 12))
    per_client = draw(st.integers(1, classes))
    clients = draw(st.integers(1, 40))
    key = draw(st.integers(-(1 << 63), (1 << 63) - 1))
    labels = {}
    for pool, most in zip(POOLS, (60, 20, 20), strict=True):
        counts = torch.tensor(draw(st.lists(st.integers(0, most), min_size=classes, max_size=classes)))
        ordered = torch.arange(classes).repeat_interleave(counts)
        labels[pool] = ordered[torch.randperm(len(ordered), generator=torch.Generator().manual_seed(key % 1000))]
    return labels, classes, per_client, clients, key


@given(classes=st.integers(1, 60), share=st.floats(0, 1), clients=st.integers(1, 80), key=st.integers(0, 1 << 62))
@settings(deadline=None)
def test_greedy_choice_always_finds_distinct_classes(classes: int, share: float, clients: int, key: int) -> None:
    per_client = 1 + int(share * (classes - 1))
    held = hold(per_client, classes, clients, key)
    assert held.shape == (clients, per_client)
    assert all(len(set(mine)) == per_client for mine in held.tolist())
    floor, extra = divmod(per_client * clients, classes)
    holders = Counter(held.flatten().tolist())
    counts = sorted(holders[label] for label in range(classes))
    assert counts == [floor] * (classes - extra) + [floor + 1] * extra


def literal_hold(per_client: int, classes: int, clients: int, held: Tensor, slots: list[int]) -> None:
    """Replay: at every turn each client's classes are those with the most slots left."""
    for mine in held.tolist():
        for label in mine:
            others = [left for other, left in enumerate(slots) if other not in mine]
            assert slots[label] > 0
            assert all(slots[label] >= left for left in others)
        for label in mine:
            slots[label] -= 1
    assert slots == [0] * classes


@pytest.mark.parametrize(("per_client", "classes", "clients"), [(2, 10, 100), (4, 10, 13), (3, 10, 7), (90, 100, 100)])
def test_the_classes_with_most_slots_are_taken(per_client: int, classes: int, clients: int) -> None:
    held = hold(per_client, classes, clients, key=9)
    literal_hold(per_client, classes, clients, held, torch.bincount(held.flatten(), minlength=classes).tolist())


def test_ties_and_extra_slots_fall_at_random() -> None:
    firsts = Counter(hold(1, 4, 1, key).item() for key in range(400))
    assert all(60 < firsts[label] < 140 for label in range(4))
    extra = Counter(torch.bincount(hold(1, 4, 5, key).flatten(), minlength=4).argmax().item() for key in range(400))
    assert all(60 < extra[label] < 140 for label in range(4))


@given(case=pathological_cases())
@settings(deadline=None, max_examples=100)
def test_pathological(case: tuple[dict[str, Tensor], int, int, int, int]) -> None:
    labels, classes, per_client, clients, key = case
    try:
        dealt = partition(f"pathological:{per_client}", labels, classes, clients, key)
    except DataError as error:
        # The only excuse is that some client would have nothing to train on.
        assert "without a training sample" in str(error) or "cannot share" in str(error)
        return
    again = partition(f"pathological:{per_client}", labels, classes, clients, key)
    counts = {pool: torch.zeros(clients, classes, dtype=torch.int64) for pool in POOLS}
    for pool, rows in dealt.items():
        together = torch.cat(rows)
        assert len(rows) == clients
        assert len(set(together.tolist())) == len(together), "a sample was dealt twice"
        assert all(torch.equal(one, other) for one, other in zip(rows, again[pool], strict=True))
        for client, mine in enumerate(rows):
            counts[pool][client] = torch.bincount(labels[pool][mine], minlength=classes)
    held = counts["train"] + counts["validation"] + counts["test"] > 0
    assert (held.sum(1) <= per_client).all()
    assert all(len(mine) for mine in dealt["train"])
    totals = {pool: torch.bincount(labels[pool], minlength=classes) for pool in POOLS}
    # A class is dealt entirely, or where nobody holds it not at all; with slots for all, nothing is left over.
    for pool in POOLS:
        dealt_of = counts[pool].sum(0)
        assert ((dealt_of == totals[pool]) | ((dealt_of == 0) & (counts["train"].sum(0) == 0))).all()
        assert per_client * clients < classes or torch.equal(dealt_of, totals[pool])
    # Two pools are cut at the same places, up to one sample.
    for pool in ("validation", "test"):
        expected = counts["train"] * totals[pool] / totals["train"].clamp(min=1)
        slack = 1 + totals[pool] / totals["train"].clamp(min=1)
        assert ((counts[pool] - expected).abs() <= slack + 1e-9)[:, totals["train"] > 0].all()


@given(
    classes=st.integers(1, 12),
    share=st.floats(0, 1),
    clients=st.integers(1, 40),
    key=st.integers(0, 1 << 62),
)
@settings(deadline=None, max_examples=50)
def test_pathological_with_plenty_of_data_gives_exactly_k_classes(
    classes: int, share: float, clients: int, key: int
) -> None:
    per_client = 1 + int(share * (classes - 1))
    # A smallest share is at least (0.4 / 0.6) / slots, so that everyone gets something of all it holds.
    labels = {pool: torch.arange(classes).repeat_interleave(2 * clients * per_client) for pool in POOLS}
    dealt = partition(f"pathological:{per_client}", labels, classes, clients, key)
    slots = per_client * clients / classes
    for pool in POOLS:
        for mine in dealt[pool]:
            count = torch.bincount(labels[pool][mine], minlength=classes)
            assert (count > 0).sum() == per_client
            if slots >= 2:
                low, high = (
                    2 * clients * per_client * 0.4 / 0.6 / (slots + 1),
                    2 * clients * per_client * 1.5 / (slots - 1),
                )
                assert low - 1 <= count[count > 0].min() <= count.max() <= high + 1


def test_shares_have_the_papers_law() -> None:
    labels = {"train": torch.zeros(400_000, dtype=torch.int64)}
    sizes = torch.tensor([len(rows) for rows in partition("pathological:1", labels, 1, 1000, 0)["train"]])
    share = sizes / 400 / 2  # normalised, U(0.4, 0.6) has a mean of 1/2
    assert 0.395 < share.min() < 0.41
    assert 0.59 < share.max() < 0.605
    assert abs(share.std() - 0.2 / 12**0.5) < 0.003


def test_papers_setting_has_the_papers_sizes() -> None:
    labels = {
        "train": torch.arange(40_000) % 10,
        "validation": torch.arange(10_000) % 10,
        "test": torch.arange(10_000) % 10,
    }
    dealt = partition("pathological:2", labels, classes=10, clients=100, key=42)
    train, test = (torch.tensor([float(len(rows)) for rows in dealt[pool]]) for pool in ("train", "test"))
    assert train.mean() == 400  # nothing is dropped; the released code has 399
    assert 310 < train.min() < 350 < 450 < train.max() < 490
    assert (train / 4 - test).abs().max() <= 2.5
    assert all(len(set(labels["test"][rows].tolist())) == 2 for rows in dealt["test"])


@given(
    counts=st.tuples(st.integers(1, 300), st.integers(0, 300), st.integers(0, 300)),
    clients=st.integers(1, 60),
    key=st.integers(0, 1 << 62),
)
@settings(deadline=None, max_examples=50)
def test_iid(counts: tuple[int, int, int], clients: int, key: int) -> None:
    assume(clients <= counts[0])
    labels = {pool: torch.zeros(count, dtype=torch.int64) for pool, count in zip(POOLS, counts, strict=True)}
    dealt = partition("iid", labels, 3, clients, key)
    for pool, count in zip(POOLS, counts, strict=True):
        assert sorted(torch.cat(dealt[pool]).tolist()) == list(range(count))
        sizes = [len(rows) for rows in dealt[pool]]
        assert len(sizes) == clients
        assert max(sizes) - min(sizes) <= 1
    again = partition("iid", labels, 3, clients, key)
    assert all(torch.equal(a, b) for a, b in zip(dealt["train"], again["train"], strict=True))


def test_iid_mixes_classes_and_pools_differently() -> None:
    labels = {"train": torch.arange(10_000) // 1000, "test": torch.arange(10_000) // 1000}
    dealt = partition("iid", labels, 10, 4, key=1)
    for rows in dealt["train"]:
        count = torch.bincount(labels["train"][rows], minlength=10)
        assert 180 < count.min() <= count.max() < 320
    assert not torch.equal(dealt["train"][0], dealt["test"][0])


@pytest.mark.parametrize("spec", ["iid", "pathological:2"])
def test_another_key_is_another_partition(spec: str) -> None:
    labels = {"train": torch.arange(1000) % 10}
    one, two = (partition(spec, labels, 10, 10, key)["train"] for key in (1, 2))
    assert not all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    state = torch.random.get_rng_state()
    partition(spec, labels, 10, 10, 3)
    assert torch.equal(state, torch.random.get_rng_state())


LABELS = {"train": torch.arange(100) % 10}


@pytest.mark.parametrize(
    ("spec", "clients", "error", "message"),
    [
        ("pathologcal:2", 10, ConfigError, "did you mean 'pathological'"),
        ("", 10, ConfigError, "unknown partition ''"),
        ("pathological", 10, ConfigError, "needs the number of classes per client"),
        ("pathological:", 10, ConfigError, "ends in a colon"),
        ("pathological:two", 10, ConfigError, "'pathological:two' needs .* as in 'pathological:2'"),
        ("pathological:2.5", 10, ConfigError, "needs the number of classes"),
        ("pathological:-1", 10, ConfigError, "needs the number of classes"),
        ("pathological:0", 10, ConfigError, "needs the number of classes"),
        ("pathological:²", 10, ConfigError, "needs the number of classes"),
        ("pathological:2:3", 10, ConfigError, "needs the number of classes"),
        ("pathological:11", 10, ConfigError, "asks for 11 classes per client, but there are 10: choose from 1 to 10"),
        ("iid:3", 10, ConfigError, "takes no argument"),
        ("iid", 0, ConfigError, "1 or more"),
        ("iid", 101, DataError, "101 clients cannot share 100 training samples"),
        ("pathological:1", 100, DataError, r"of 100 clients without a training sample \(the first is client \d+\)"),
    ],
)
def test_errors_say_what_to_do(spec: str, clients: int, error: type[Exception], message: str) -> None:
    labels = (
        LABELS
        if clients < 100 or spec == "iid"
        else {"train": torch.cat([torch.zeros(91, dtype=torch.int64), torch.arange(1, 10)])}
    )
    with pytest.raises(error, match=message):
        partition(spec, labels, 10, clients, key=0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"test": torch.arange(3)}, "no pool 'train'"),
        ({"train": torch.arange(11)}, "from 0 to 9"),
        ({"train": torch.arange(-1, 5)}, "from 0 to 9"),
        ({"train": torch.rand(5)}, "vector of int64"),
    ],
)
def test_wrong_labels(labels: dict[str, Tensor], message: str) -> None:
    with pytest.raises(DataError, match=message):
        partition("iid", labels, 10, 1, key=0)


def test_names() -> None:
    assert names() == ["iid", "pathological"]
