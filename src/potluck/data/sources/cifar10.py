"""CIFAR-10 (Krizhevsky, 2009): 32x32 colour images, in six files of 10,000."""

from __future__ import annotations

from pathlib import Path

from potluck.data.sources import cifar
from potluck.data.sources.base import Source
from potluck.data.sources.published import Download, File, Form, Published

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SITE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_BINARY_SIZE = 10_000 * (1 + 3 * 32 * 32)

BINARY = Form(
    folders=("cifar-10-batches-bin",),
    # In order: the test set comes last.
    files={
        "data_batch_1.bin": File(_BINARY_SIZE, "5dd7e06a14cb22eb9f671a540d1b7c25"),
        "data_batch_2.bin": File(_BINARY_SIZE, "5ea93a67294ea407fff1d09f752e9692"),
        "data_batch_3.bin": File(_BINARY_SIZE, "942cd6a4bcdd0dd3c604fbe906cb4421"),
        "data_batch_4.bin": File(_BINARY_SIZE, "ae636b3ba5c66a11e91e8cb52e771fcb"),
        "data_batch_5.bin": File(_BINARY_SIZE, "53f37980c15c3d472c316c40844f3f0d"),
        "test_batch.bin": File(_BINARY_SIZE, "803d5f7f4d78ea53de84dbe85f74fb6d"),
    },
    remedy=f"Unpack cifar-10-binary.tar.gz from {_SITE}",
    archives=("cifar-10-binary.tar.gz",),
    inside="cifar-10-batches-bin",
    downloads=(
        Download(
            "cifar-10-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            170_052_171,
            "c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
)
PYTHON = Form(
    folders=("cifar-10-batches-py",),
    files={
        "data_batch_1": File(31_035_704, "c99cafc152244af753f735de768cd75f"),
        "data_batch_2": File(31_035_320, "d4bba439e000b95fd0a9bffe97cbabec"),
        "data_batch_3": File(31_035_999, "54ebc095f3ab1f0389bbae665268c751"),
        "data_batch_4": File(31_035_696, "634d18415352ddfa80567beed471001a"),
        "data_batch_5": File(31_035_623, "482c414d41f54cd18b22e5b47cb7c3cb"),
        "test_batch": File(31_035_526, "40351d587109b95175f43aff81a1287e"),
    },
    remedy=f"Unpack cifar-10-python.tar.gz from {_SITE}",
    archives=("cifar-10-python.tar.gz",),
    inside="cifar-10-batches-py",
    downloads=(
        Download(
            "cifar-10-python.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
            170_498_071,
            "c58f30108f718f92721af3b95e74349a",
        ),
    ),
)
PUBLISHED = Published("50,000 + 10,000 pictures, 32x32 in colour, 10 classes", (BINARY, PYTHON))


def load(data_dir: str | Path | None = None) -> Source:
    """Read the binary or the Python version, a folder or its archive, checked against the published files."""
    forms = ((BINARY, cifar.binary(label_bytes=1)), (PYTHON, cifar.python(b"labels")))
    x, y = cifar.read("cifar-10", forms, len(CLASS_NAMES), data_dir)
    return Source(
        name="cifar-10",
        x=x,
        y=y,
        class_names=CLASS_NAMES,
        # ImageNet's values, because the papers' released code uses them.
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        test_from=len(y) // 6 * 5,
        default_split="release",
    )
