"""What a specification of models stands for, and which client gets which."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.errors import ModelError
from potluck.models import assign, assignment


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("cnn-1", "1"),
        ("CNN-4", "4"),
        ("cnn-1..5", "12345"),
        ("cnn-2..2", "2"),
        ("cnn-1,cnn-3", "13"),
        ("cnn-3, cnn-3 ,cnn-1", "331"),
        ("cnn-4..5,cnn-1..2", "4512"),
    ],
)
def test_assignment(spec: str, expected: str) -> None:
    assert assignment(spec) == [f"cnn-{number}" for number in expected]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cnn-6", r"unknown model 'cnn-6': did you mean 'cnn-\d'\? Known: alexnet, cnn-1, cnn-2"),
        ("cnn-1..9", "unknown model 'cnn-6'"),
        ("cnn-1..999999999999", "unknown model 'cnn-6'"),
        ("resnet", "unknown model 'resnet'"),
        ("cnn-1,,cnn-2", "a name is missing"),
        ("", "a name is missing"),
        ("cnn-5..1", r"a range goes upwards, as in 'cnn-1\.\.5'"),
        ("cnn-1..", r"unknown model 'cnn-1\.\.'"),
        ("cnn-1.." + 5000 * "9", "unknown model"),
        ("mlp-64..66", r"models 'mlp-64\.\.66': the numbers are widths, which have no range"),
        ("mlp-1..999999999999", "which have no range"),
        ("resnet-18@500..502", "which have no range"),
        ("fedproto-cnn-1..4", "unknown model 'fedproto-cnn-4'"),
    ],
)
def test_a_wrong_assignment_says_what_is_wrong(spec: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        assignment(spec)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("fedproto-cnn-1..3", ["fedproto-cnn-1", "fedproto-cnn-2", "fedproto-cnn-3"]),
        ("fedproto-resnet-1..2,resnet-18", ["fedproto-resnet-1", "fedproto-resnet-2", "resnet-18"]),
        ("ResNet-18@500, GoogLeNet@512,mlp-128-064", ["resnet-18@500", "googlenet", "mlp-128-64"]),
    ],
)
def test_networks_of_other_papers(spec: str, expected: list[str]) -> None:
    assert assignment(spec) == expected


def test_by_id_takes_turns() -> None:
    assert assign(["a", "b", "c"], 7, "by-id", key=3) == ["a", "b", "c", "a", "b", "c", "a"]
    assert assign(["a", "b", "c"], 2, "by-id", key=3) == ["a", "b"]


@given(st.integers(0, 2**63 - 1), st.integers(1, 60), st.integers(0, 60))
def test_a_random_assignment_is_the_same_for_more_clients(key: int, clients: int, more: int) -> None:
    few = assign("abc", clients, "random", key)
    assert few == assign("abc", clients + more, "random", key)[:clients]
    assert assign("a", clients, "random", key) == ["a"] * clients


def test_a_random_assignment_gives_every_network_the_same_chance() -> None:
    counts = Counter(assign("abcde", 10_000, "random", key=5))
    # Five standard deviations of a binomial distribution.
    assert all(abs(count - 2000) < 5 * (10_000 * 0.2 * 0.8) ** 0.5 for count in counts.values())
    assert assign("abcde", 50, "random", key=5) != assign("abcde", 50, "random", key=6)
    twice = Counter(assign("aab", 10_000, "random", key=5))
    assert abs(twice["a"] - 20_000 / 3) < 5 * (10_000 * 2 / 9) ** 0.5
