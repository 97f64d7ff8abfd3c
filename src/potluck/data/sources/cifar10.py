"""CIFAR-10 (Krizhevsky, 2009), in its binary version.

Six files of 10,000 records; a record is one byte for the class, then 32x32 bytes each of red, green and blue.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from potluck.data.sources import files
from potluck.data.sources.base import Source
from potluck.data.sources.locate import locate

FOLDER = "cifar-10-batches-bin"
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_ORIGIN = "cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html"
_REMEDY = f"Unpack {_ORIGIN} again"
_SHAPE = (3, 32, 32)
_PER_FILE = 10_000
_RECORD = 1 + 3 * 32 * 32
# In order: the test set comes last.
_MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


def load(data_dir: str | Path | None = None) -> Source:
    """Read the folder ``cifar-10-batches-bin``, the six files of which are checked against the published ones."""
    folder = locate(FOLDER, _ORIGIN, data_dir)
    x = np.empty((_PER_FILE * len(_MD5), *_SHAPE), dtype=np.uint8)
    y = np.empty(len(x), dtype=np.int64)
    for index, (name, md5) in enumerate(_MD5.items()):
        content = files.read(folder / name, _REMEDY)
        files.check(content, folder / name, _REMEDY, size=_PER_FILE * _RECORD, md5=md5)
        records = np.frombuffer(content, dtype=np.uint8).reshape(_PER_FILE, _RECORD)
        rows = slice(index * _PER_FILE, (index + 1) * _PER_FILE)
        y[rows] = records[:, 0]
        x[rows] = records[:, 1:].reshape(-1, *_SHAPE)
    return Source(
        name="cifar-10",
        x=torch.from_numpy(x),
        y=torch.from_numpy(y),
        class_names=CLASS_NAMES,
        # ImageNet's values, because the papers' released code uses them.
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        test_from=_PER_FILE * (len(_MD5) - 1),
        default_split="release",
    )
