"""The bar: stacked computes what loop does, for every algorithm."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from potluck import algorithms
from potluck.data.transform import Transform

from .small import assert_same, federation, rounding

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "at once": ("pfedes", {"training": "simultaneous", "extractor_learning_rate": 0.005}),
    "end-to-end": ("pfedafm", {"training": "end-to-end"}),
    # Batches of two would do, but normalised and contrasted they turn the last bit into the tenth digit, on any engine.
    "all shared": ("fedclassavg", {"share": "all", "batch_size": 6}),
    "released contrast": ("fedclassavg", {"contrast": "release", "transform": Transform(augmentation="two-views")}),
    "nearest prototype": ("fedproto", {"inference": "prototype"}),
    "adam": ("pfedes", {"optimizer": "adam", "learning_rate": 0.003, "weight_decay": 0.01}),
    "cosine": ("fml", {"schedule": "cosine"}),
    "no clipping": ("fedkd", {"clip_norm": None}),
    "hard clipping, no momentum": ("fedapen", {"clip_norm": 0.1, "momentum": 0.0}),
    "one batch of all": ("lg-fedavg", {"batch_size": 100}),
}


@pytest.mark.parametrize("name", algorithms.names())
def test_every_algorithm(name: str) -> None:
    stacked = federation(name, "stacked")
    assert_same(federation(name, "loop"), stacked)
    assert stacked.engine.notes == ()


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(variant: str) -> None:
    name, settings = VARIANTS[variant]
    assert_same(federation(name, "loop", **settings), federation(name, "stacked", **settings))


@pytest.mark.parametrize("name", ["pfedes", "fedapen", "kt-pfl", "fedavg"])
def test_room_for_more_clients_than_there_are(name: str) -> None:
    assert_same(federation(name, "loop", one_source=True), rounding(federation(name, "stacked", one_source=True)))


def test_in_single_precision_it_is_close() -> None:
    one, other = (federation("pfedes", engine, precision="float32", epochs=1) for engine in ("loop", "stacked"))
    assert_same(one, other, tolerance=1e-3)
    assert all(tensor.dtype == torch.float32 for tensor in other.server.values())
