"""Fashion-MNIST (Xiao, Rasul and Vollgraf, arXiv:1708.07747): 28x28 images of clothes, in files like MNIST's."""

from __future__ import annotations

from pathlib import Path

from potluck.data.sources.base import Source
from potluck.data.sources.idx import read_parts
from potluck.data.sources.locate import locate
from potluck.data.sources.published import Download, File, Form, Published

CLASS_NAMES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
_SITE = "https://github.com/zalandoresearch/fashion-mnist"
_HOSTS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)

PUBLISHED = Published(
    about="60,000 + 10,000 clothes, 28x28, 10 classes",
    forms=(
        Form(
            folders=("fashion-mnist",),
            files={
                "train-images-idx3-ubyte.gz": File(47_040_016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
                "train-labels-idx1-ubyte.gz": File(60_008, "9018921c3c673c538a1fc5bad174d6f9"),
                "t10k-images-idx3-ubyte.gz": File(7_840_016, "8181f5470baa50b63fa0f6fddb340f0a"),
                "t10k-labels-idx1-ubyte.gz": File(10_008, "15d484375f8d13e6eb1aabb0c3f46965"),
            },
            remedy=f"Put the four files that {_SITE} links to into fashion-mnist/",
            compressed=True,
            downloads=tuple(
                Download(f"fashion-mnist/{name}", tuple(host + name for host in _HOSTS), size, md5)
                for name, size, md5 in (
                    ("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                    ("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
                    ("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
                    ("t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
                )
            ),
        ),
    ),
)


def load(data_dir: str | Path | None = None) -> Source:
    """Read the folder ``fashion-mnist``, whose four files are checked against the published ones."""
    found = locate("fashion-mnist", PUBLISHED.forms, data_dir)
    x, y, test_from = read_parts(found, "train", "t10k")
    return Source(
        name="fashion-mnist",
        x=x,
        y=y,
        class_names=CLASS_NAMES,
        # What FedClassAvg's released code uses for it.
        mean=(0.5,),
        std=(0.5,),
        test_from=test_from,
        default_split="release",
    )
