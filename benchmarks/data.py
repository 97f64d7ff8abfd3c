"""How long data take: loading, dealing, augmenting; and how much quicker whole batches are than single images.

    python -m benchmarks.data [folder with data sets]

Every number is the best of several tries in this one run, on two cores. Ratios compare with transforms of one image at
a time on the same images in the same run: torchvision's where it is installed, and the same ones written out as
plainly as can be, which are several times as fast.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from benchmarks.noise import noise
from benchmarks.per_image import MEAN, STD, from_torchvision, release_alone, views_alone
from potluck.data import Transform, load, partition, pools
from potluck.data.sources import Source, names
from potluck.draws import spread
from potluck.errors import DataError

IMAGES, BATCH, SINGLE = 10_000, 512, 2_000


def best(tries: int, work: Callable[[], object]) -> float:
    """Seconds of the quickest of several tries."""
    seconds = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def line(what: str, seconds: float, note: str = "") -> None:
    """One result."""
    print(f"  {what:<58}{seconds:8.3f} s   {note}".rstrip())


# ---- what is measured ---------------------------------------------------------------------------------------------


def loading(data_dir: Path | None) -> Source:
    """Load every data set that is there; CIFAR-10, or noise in its shape."""
    print("load (files in the system's cache; every checksum compared)")
    cifar = None
    for name in names():
        try:
            source = load(name, data_dir)
        except DataError:
            print(f"  {name:<58}not here")
            continue
        line(name, best(2, partial(load, name, data_dir)))
        if name == "cifar-10":
            cifar = source

            def normalised() -> Tensor:
                fresh = load("cifar-10", data_dir)
                return Transform(fresh.mean, fresh.std).plain(fresh.x, torch.float32)

            line("cifar-10 to normalised tensors", best(3, normalised), "bar: 2 s")
    return cifar or noise()


def dealing(source: Source) -> None:
    """Deal labels in CIFAR's numbers."""
    print("\npartition (40,000 + 10,000 + 10,000 labels)")
    rows = pools(source, source.default_split, key=0)
    ten = {pool: source.y[own] for pool, own in rows.items()}
    hundred = {pool: torch.arange(len(own)) % 100 for pool, own in rows.items()}
    for labels, classes, spec, clients, bar in (
        (ten, 10, "pathological:2", 100, ""),
        (hundred, 100, "pathological:10", 100, "bar: 1 s"),
        (hundred, 100, "dirichlet:0.5", 100, "bar: 1 s"),
        (hundred, 100, "balanced-dirichlet:0.5", 100, "bar: 1 s"),
        (ten, 10, "two-classes", 100, ""),
        (ten, 10, "pathological:2", 10_000, "bar: 10 s"),
        (ten, 10, "two-classes", 10_000, "bar: 10 s"),
        (ten, 10, "balanced-dirichlet:0.5", 10_000, "bar: 10 s"),
        (hundred, 100, "balanced-dirichlet:0.5", 10_000, "bar: 10 s"),
        (ten, 10, "iid", 10_000, "bar: 10 s"),
    ):
        seconds = best(2, partial(partition, spec, labels, classes, clients, key=1))
        line(f"{spec}, {classes} classes, {clients:,} clients", seconds, bar)


def augmenting(source: Source) -> None:
    """Augment and normalise images, in batches and one by one."""
    print(f"\naugment and normalise {IMAGES:,} images of CIFAR-10, from bytes")
    x, keys = source.x[:IMAGES], spread(0, torch.arange(IMAGES))
    theirs = from_torchvision()
    pictures = list(x[:SINGLE].permute(0, 2, 3, 1).contiguous().numpy())
    for name, alone in (("release", release_alone), ("two-views", views_alone)):
        transform = Transform(MEAN, STD, name)
        at_once = best(5, partial(_in_batches, transform, x, keys, IMAGES))
        line(f"{name}, in one call", at_once)
        line(f"{name}, in batches of {BATCH}", best(5, partial(_in_batches, transform, x, keys, BATCH)))
        for whose, change in (("written out", alone), ("torchvision", theirs.get(name))):
            if change is None:
                continue
            single = best(3, partial(_one_by_one, change, pictures)) * IMAGES / SINGLE
            line(f"{name}, one by one, {whose} (of {SINGLE:,})", single, f"{single / at_once:.1f} times as long")


def _in_batches(transform: Transform, x: Tensor, keys: Tensor, size: int) -> None:
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        transform.augmented(x[part], keys[part], torch.float32)


def _one_by_one(change: Callable[[Image.Image], Tensor], pictures: Sequence[np.ndarray[Any, Any]]) -> Tensor:
    return torch.stack([change(Image.fromarray(picture)) for picture in pictures])


def main() -> None:
    """Measure everything."""
    torch.set_num_threads(2)
    data_dir = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print(f"PyTorch {torch.__version__}, two threads\n")
    source = loading(data_dir)
    dealing(source)
    augmenting(source)


if __name__ == "__main__":
    main()
