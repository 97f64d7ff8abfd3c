"""Networks by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from potluck.errors import ModelError
from potluck.models import MLP_EXAMPLES, build, names
from potluck.models.registry import known

DOCUMENT = Path(__file__).parents[2] / "docs/models.md"


def test_every_name_builds_a_network_that_runs() -> None:
    for name in (*names(), *MLP_EXAMPLES):
        assert build(name, (1, 28, 28), 7)(torch.zeros(2, 1, 28, 28)).shape == (2, 7)


def test_names_build_the_networks_they_name() -> None:
    sizes = {name: sum(p.numel() for p in build(name, (3, 32, 32), 10).parameters()) for name in names()}
    assert sizes == {
        "alexnet": 1_818_762,
        "cnn-1": 2_621_558,
        "cnn-2": 1_815_142,
        "cnn-3": 1_320_558,
        "cnn-4": 1_060_358,
        "cnn-5": 670_058,
        "fedavg-cnn": 2_156_490,
        "fedproto-cnn-1": 28_338,
        "fedproto-cnn-2": 31_340,
        "fedproto-cnn-3": 34_342,
        "fedproto-resnet-1": 11_181_642,
        "fedproto-resnet-2": 11_181_642,
        "googlenet": 6_129_834,
        "resnet-18": 11_444_298,
        "shufflenet-v2": 1_783_534,
    }


def test_documented_sizes_are_right() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \|.*\| ([0-9x]+), ([0-9]+) \| ([0-9,]+) \|", DOCUMENT.read_text(), flags=re.MULTILINE
    )
    assert {name for name, *_ in rows} >= {*names(), *MLP_EXAMPLES}
    for name, sides, classes, count in rows:
        with torch.device("meta"):
            model = build(name, tuple(map(int, sides.split("x"))), int(classes))
        assert f"{sum(p.numel() for p in model.parameters()):,}" == count, name


@pytest.mark.parametrize(
    ("name", "width"),
    [("resnet-18@500", 500), ("ALEXNET@1", 1), ("googlenet@512", 512), ("mlp-7", 7), ("mlp-9-3", 3), ("MLP-12-05", 5)],
)
def test_widths(name: str, width: int) -> None:
    assert build(name, (1, 16, 16), 10).get_submodule("head").extra_repr() == (
        f"in_features={width}, out_features=10, bias=True"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [("CNN-4", "cnn-4"), ("alexnet@0512", "alexnet"), ("AlexNet@0500", "alexnet@500"), ("mlp-064-5", "mlp-64-5")],
)
def test_a_network_is_known_by_one_name(name: str, expected: str) -> None:
    assert known(name) == known(expected) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cnn1", "unknown model 'cnn1': did you mean 'cnn-1'"),
        ("mpl-64", "unknown model 'mpl-64': did you mean 'mlp-64'"),
        ("mlp", "unknown model 'mlp'"),
        ("mlp-64-", "unknown model 'mlp-64-'"),
        ("mlp-64@3", "unknown model 'mlp-64@3'"),
        ("mlp-0", r"model 'mlp-0': '0' is no width\. Give a whole number from 1 to 16384"),
        ("mlp-3-16385", "'16385' is no width"),
        ("mlp-" + 5000 * "9", "is no width"),
        (
            "fedavg-cnn@500",
            "fedavg-cnn has no width to choose; these have: alexnet, googlenet, resnet-18, shufflenet-v2, cnn-1",
        ),
        ("resnet-18@", "'' is no width"),
        ("resnet-18@wide", "'wide' is no width"),
        ("resnet-18@-5", "'-5' is no width"),
        ("resnet-18@5@5", "'5@5' is no width"),
        ("resnet-18@\u0665", "is no width"),
    ],
)
def test_a_wrong_name_cannot_be_built(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build(name, (3, 32, 32), 10)
