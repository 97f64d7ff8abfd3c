"""Fashion-MNIST's 10,000 test images (Xiao, Rasul and Vollgraf, arXiv:1708.07747): small enough to travel with Potluck.

They are a data set of their own here, without an official split: for trying things out and for tests, with nothing
to download.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import torch

from potluck.data.sources import idx
from potluck.data.sources.base import Source

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
_REMEDY = "It is a part of Potluck: install the package again"
# Of the uncompressed content.
_SHA256 = {
    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def load(data_dir: str | Path | None = None) -> Source:  # noqa: ARG001 - every source takes it; this one carries its files
    """Load the images that the package carries; ``data_dir`` is not looked into."""
    folder = resources.files("potluck.data") / "files" / "fashion-mnist-10k"
    images, labels = (
        idx.read(folder / name, dims, _REMEDY, _SHA256[name])
        for name, dims in (("t10k-images-idx3-ubyte.gz", 3), ("t10k-labels-idx1-ubyte.gz", 1))
    )
    return Source(
        name="fashion-mnist-10k",
        x=images.unsqueeze(1),
        y=labels.to(torch.int64),
        class_names=CLASS_NAMES,
        # What the papers' released code uses for MNIST.
        mean=(0.5071,),
        std=(0.2673,),
    )
