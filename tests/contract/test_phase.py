"""Phases and their groups."""

from __future__ import annotations

from typing import Literal

import pytest
from torch import Tensor

from potluck.contract import Batch, Group, Networks, Phase, Received, Round


def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
    return batch.cross_entropy(net(batch.x))


def test_networks_named_alone_form_one_group_before_the_others() -> None:
    own = Group(("mixer",), learning_rate=0.5)
    phase = Phase(train=("body", own, "head"), loss=loss)
    assert phase.groups == (Group(("body", "head")), own)
    assert phase.learning == ("body", "head", "mixer")


def test_groups_alone_are_all_there_is() -> None:
    own = Group(("mixer", "body"))
    assert Phase(train=(own,), loss=loss).groups == (own,)
    assert Phase(train=(own,), loss=loss).learning == ("mixer", "body")


@pytest.mark.parametrize(
    ("data", "augment", "expected"),
    [
        ("train", None, True), ("holdout", None, False), ("public", None, False),
        ("train", False, False), ("holdout", True, True), ("public", True, True),
    ],
)  # fmt: skip
def test_only_training_data_are_augmented_unless_asked(
    data: Literal["train", "holdout", "public"], augment: bool | None, expected: bool
) -> None:
    assert Phase(train=("body",), loss=loss, data=data, augment=augment).augmented is expected


def test_the_rest_is_the_run_s_own_setting() -> None:
    phase, group = Phase(train=("body",), loss=loss), Group(("body",))
    assert (phase.epochs, phase.data, phase.views) == (None, "train", 1)
    assert (group.learning_rate, group.momentum, group.weight_decay) == (None, None, None)
    assert (group.clip_norm, group.project) == (None, None)
    assert Round(1, 5).key == 0
