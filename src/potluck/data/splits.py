"""Cutting a data set into the pools that clients train, validate and test on, before any client is thought of.

Some methods need more: samples that everybody may see, which are set aside from the training pool, and a share of its
training samples that each client holds out.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from potluck.data.cutting import deal, gather, shuffle_by_class
from potluck.data.examples import Examples
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
            validation, as the papers' released code does. ``official`` keeps both official sets, without validation.
            A ratio such as ``8:1:1`` (train, validation, test) or ``8:2`` (no validation) cuts each class of the
            whole data set.
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
    if split == "official":
        test_from = _official(source, split)
        rows = torch.arange(len(source.y))
        return {"train": rows[:test_from], "validation": rows[:0], "test": rows[test_from:]}
    weights = torch.tensor(_ratio(split)).unsqueeze(1).expand(-1, source.classes)
    parts = dict(zip(POOLS, gather(deal(source.y, weights, key), len(POOLS)), strict=True))
    for pool in ("train", "test"):
        if not len(parts[pool]):
            raise DataError(f"split {split!r} leaves {source.name} without a {pool} sample: choose another ratio.")
    return parts


def set_aside(labels: Tensor, count: int, key: int) -> tuple[Tensor, Tensor]:
    """Set ``count`` samples of a pool aside, of each class its share of them, up to one.

    Args:
        labels: The class of each sample of the pool.
        count: How many to set aside.
        key: What they are drawn from.

    Returns:
        The positions that stay, and those that are set aside, both in ascending order.

    Raises:
        DataError: Nothing would stay.

    >>> stay, aside = set_aside(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), 2, key=0)
    >>> len(stay), (aside < 4).tolist()
    (6, [True, False])
    """
    if count >= len(labels):
        raise DataError(
            f"{count:,} public samples cannot be set aside from {len(labels):,} training samples: set 'public' lower."
        )
    # With the classes one after another, every so many samples one is taken: exactly ``count`` in all.
    order = shuffle_by_class(labels, key)
    steps = torch.arange(len(order) + 1) * count // len(order)
    taken = steps[1:] > steps[:-1]
    return order[~taken].sort().values, order[taken].sort().values


def hold_out(train: Examples, share: float, key: int) -> tuple[Examples, Examples]:
    """Cut a client's training samples into those it learns from and the ``share`` that it holds out, one at least."""
    order = permutation(key, len(train), train.device)
    count = min(max(round(share * len(train)), 1), len(train) - 1)
    return train.only(order[count:].sort().values), train.only(order[:count].sort().values)


def _official(source: Source, split: str) -> int:
    if source.test_from is None:
        raise DataError(f"{source.name} has no official test set for split {split!r}: use a ratio such as '8:1:1'.")
    return source.test_from


def _release(source: Source, key: int) -> dict[str, Tensor]:
    test_from = _official(source, "release")
    if test_from <= _VALIDATION:
        raise DataError(
            f"split 'release' takes {_VALIDATION:,} training samples for validation, and {source.name} has only "
            f"{test_from:,}: use a ratio such as '8:1:1'."
        )
    order = permutation(key, test_from)
    return {
        "train": order[_VALIDATION:].sort().values,
        "validation": order[:_VALIDATION].sort().values,
        "test": torch.arange(test_from, len(source.y)),
    }


def _ratio(split: str) -> tuple[int, int, int]:
    match = _RATIO.fullmatch(split)
    train, validation, test = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    if not (train and test):
        raise ConfigError(
            f"split {split!r} is neither 'release' nor 'official' nor a ratio of train, validation and test such as "
            "'8:1:1', or of train and test such as '8:2', in whole numbers."
        )
    return train, validation, test
