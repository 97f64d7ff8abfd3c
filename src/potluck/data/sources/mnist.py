"""MNIST (LeCun, Cortes and Burges, 1998): 28x28 handwritten digits, in four idx files."""

from __future__ import annotations

from pathlib import Path

from potluck.data.sources.base import Source
from potluck.data.sources.idx import read_parts
from potluck.data.sources.locate import locate
from potluck.data.sources.published import Download, File, Form, Published

_SITE = "http://yann.lecun.com/exdb/mnist/"
_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"

PUBLISHED = Published(
    about="60,000 + 10,000 digits, 28x28, 10 classes",
    forms=(
        Form(
            folders=("mnist",),
            files={
                "train-images-idx3-ubyte.gz": File(47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
                "train-labels-idx1-ubyte.gz": File(60_008, "a25bea736e30d166cdddb491f175f624"),
                "t10k-images-idx3-ubyte.gz": File(7_840_016, "2646ac647ad5339dbf082846283269ea"),
                "t10k-labels-idx1-ubyte.gz": File(10_008, "27ae3e4e09519cfbb04c329615203637"),
            },
            remedy=f"Put the four files of {_SITE} into mnist/",
            compressed=True,
            downloads=tuple(
                Download(f"mnist/{name}", (_SITE + name, _MIRROR + name), size, md5)
                for name, size, md5 in (
                    ("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                    ("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
                    ("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
                    ("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
                )
            ),
        ),
    ),
)


def load(data_dir: str | Path | None = None) -> Source:
    """Read the folder ``mnist``, whose four files are checked against the published ones."""
    found = locate("mnist", PUBLISHED.forms, data_dir)
    x, y, test_from = read_parts(found, "train", "t10k")
    return Source(
        name="mnist",
        x=x,
        y=y,
        class_names=tuple(map(str, range(10))),
        # What the papers' released code uses for MNIST; it is CIFAR-100's first channel.
        mean=(0.5071,),
        std=(0.2673,),
        test_from=test_from,
        default_split="release",
    )
