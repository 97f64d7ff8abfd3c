"""Cutting a data set into the pools that clients train, validate and test on, before any client is thought of."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from potluck.data.cutting import deal, gather
from potluck.data.sources.base import Source
from potluck.draws import fold, permutation
from potluck.errors import ConfigError, DataError

POOLS = ("train", "validation", "test")
_VALIDATION = 10_000
_RATIO = re.compile(r"([0-9]{1,6}):(?:([0-9]{1,6}):)?([0-9]{1,6})")


def pools(source: Source, split: str, key: int) -> dict[str, Tensor]:
    """The rows of ``source`` in each of the pools "train", "validation" and "test".

    Args:
        source: The data set.
        split: ``release`` keeps the official test set and draws 10,000 of the official training samples for
            validation, as the papers' released code does. A ratio such as ``8:1:1`` (train, validation, test) or
            ``8:2`` (no validation) cuts each class of the whole data set.
        key: What the split is drawn from.

    Raises:
        ConfigError: There is no such split.
        DataError: The data set does not admit it.

    >>> from potluck.data.sources import load
    >>> {pool: len(rows) for pool, rows in pools(load("fashion-mnist-10k"), "8:1:1", key=0).items()}
    {'train': 8000, 'validation': 1000, 'test': 1000}
    """
    key = fold(key, "split")
    if split == "release":
        return _release(source, key)
    weights = torch.tensor(_ratio(split)).unsqueeze(1).expand(-1, source.classes)
    parts = dict(zip(POOLS, gather(deal(source.y, weights, key), len(POOLS)), strict=True))
    for pool in ("train", "test"):
        if not len(parts[pool]):
            raise DataError(f"split {split!r} leaves {source.name} without a {pool} sample: choose another ratio.")
    return parts


def _release(source: Source, key: int) -> dict[str, Tensor]:
    if source.test_from is None:
        raise DataError(f"{source.name} has no official test set for split 'release': use a ratio such as '8:1:1'.")
    if source.test_from <= _VALIDATION:
        raise DataError(
            f"split 'release' takes {_VALIDATION:,} training samples for validation, and {source.name} has only "
            f"{source.test_from:,}: use a ratio such as '8:1:1'."
        )
    order = permutation(key, source.test_from)
    return {
        "train": order[_VALIDATION:].sort().values,
        "validation": order[:_VALIDATION].sort().values,
        "test": torch.arange(source.test_from, len(source.y)),
    }


def _ratio(split: str) -> tuple[int, int, int]:
    match = _RATIO.fullmatch(split)
    train, validation, test = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    if not (train and test):
        raise ConfigError(
            f"split {split!r} is neither 'release' nor a ratio of train, validation and test such as '8:1:1', "
            "or of train and test such as '8:2', in whole numbers."
        )
    return train, validation, test
