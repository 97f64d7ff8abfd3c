"""Networks by name, and what a specification of models stands for."""

from __future__ import annotations

import pytest
import torch

from potluck.errors import ModelError
from potluck.models import assignment, build, names


def test_every_name_builds_a_network_that_runs() -> None:
    for name in names():
        assert build(name, (1, 28, 28), 7)(torch.zeros(2, 1, 28, 28)).shape == (2, 7)


def test_names_build_different_networks() -> None:
    sizes = [sum(p.numel() for p in build(name, (3, 32, 32), 10).parameters()) for name in names()]
    assert sizes == [2_621_558, 1_815_142, 1_320_558, 1_060_358, 670_058]


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
        ("cnn-6", r"unknown model 'cnn-6': did you mean 'cnn-\d'\? Known: cnn-1, cnn-2"),
        ("cnn-1..9", "unknown model 'cnn-6'"),
        ("cnn-1..999999999999", "unknown model 'cnn-6'"),
        ("resnet", "unknown model 'resnet'"),
        ("cnn-1,,cnn-2", "a name is missing"),
        ("", "a name is missing"),
        ("cnn-5..1", r"a range goes upwards, as in 'cnn-1\.\.5'"),
        ("cnn-1..", r"unknown model 'cnn-1\.\.'"),
    ],
)
def test_a_wrong_assignment_says_what_is_wrong(spec: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        assignment(spec)


def test_an_unknown_name_cannot_be_built() -> None:
    with pytest.raises(ModelError, match="unknown model 'cnn1': did you mean 'cnn-1'"):
        build("cnn1", (3, 32, 32), 10)
