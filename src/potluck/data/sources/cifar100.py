"""CIFAR-100 (Krizhevsky, 2009): 32x32 colour images of 100 fine classes; the 20 coarse ones are not used."""

from __future__ import annotations

from pathlib import Path

from potluck.data.sources import cifar
from potluck.data.sources.base import Source
from potluck.data.sources.published import Download, File, Form, Published

CLASS_NAMES = (
    "apple", "aquarium fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish",
    "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn mower", "leopard", "lion",
    "lizard", "lobster", "man", "maple tree", "motorcycle", "mountain", "mouse", "mushroom", "oak tree", "orange",
    "orchid", "otter", "palm tree", "pear", "pickup truck", "pine tree", "plain", "plate", "poppy", "porcupine",
    "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk",
    "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet pepper", "table", "tank",
    "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale",
    "willow tree", "wolf", "woman", "worm",
)  # fmt: skip
_SITE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_RECORD = 2 + 3 * 32 * 32

BINARY = Form(
    folders=("cifar-100-binary",),
    files={
        "train.bin": File(50_000 * _RECORD, "6172c7755cfe09b2fe270c85cebc1b15"),
        "test.bin": File(10_000 * _RECORD, "4499cfba6c016c1be1438163640a0898"),
    },
    remedy=f"Unpack cifar-100-binary.tar.gz from {_SITE}",
    archives=("cifar-100-binary.tar.gz",),
    inside="cifar-100-binary",
    downloads=(
        Download(
            "cifar-100-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            168_513_733,
            "03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
)
PYTHON = Form(
    folders=("cifar-100-python",),
    files={
        "train": File(155_249_918, "16019d7e3df5f24257cddd939b257f8d"),
        "test": File(None, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    },
    remedy=f"Unpack cifar-100-python.tar.gz from {_SITE}",
    archives=("cifar-100-python.tar.gz",),
    inside="cifar-100-python",
    downloads=(
        Download(
            "cifar-100-python.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",),
            169_001_437,
            "eb9058c3a382ffc7106e4002c42a8d85",
        ),
    ),
)
PUBLISHED = Published("50,000 + 10,000 pictures, 32x32 in colour, 100 classes", (BINARY, PYTHON))


def load(data_dir: str | Path | None = None) -> Source:
    """Read the binary or the Python version, a folder or its archive, checked against the published files."""
    forms = ((BINARY, cifar.binary(label_bytes=2)), (PYTHON, cifar.python(b"fine_labels")))
    x, y = cifar.read("cifar-100", forms, len(CLASS_NAMES), data_dir)
    return Source(
        name="cifar-100",
        x=x,
        y=y,
        class_names=CLASS_NAMES,
        # What the papers' released code uses.
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        test_from=len(y) // 6 * 5,
        default_split="release",
    )
