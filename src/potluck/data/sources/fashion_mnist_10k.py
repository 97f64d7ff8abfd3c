"""Fashion-MNIST's 10,000 test images (Xiao, Rasul and Vollgraf, arXiv:1708.07747): small enough to travel with Potluck.

They are a data set of their own here, without an official split: for trying things out and for tests, with nothing
to download.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import torch

from potluck.data.sources import files, idx
from potluck.data.sources.base import Source
from potluck.data.sources.fashion_mnist import CLASS_NAMES
from potluck.data.sources.published import File

ABOUT = "10,000 clothes, 28x28, 10 classes"
_REMEDY = "It is a part of Potluck: install the package again"
FILES = {
    "t10k-images-idx3-ubyte.gz": File(7_840_016, "8181f5470baa50b63fa0f6fddb340f0a"),
    "t10k-labels-idx1-ubyte.gz": File(10_008, "15d484375f8d13e6eb1aabb0c3f46965"),
}


def load(data_dir: str | Path | None = None) -> Source:  # noqa: ARG001 - every source takes it; this one carries its files
    """Load the images that the package carries; ``data_dir`` is not looked into."""
    images, labels = (_read(name, dims) for name, dims in zip(FILES, (3, 1), strict=True))
    return Source(
        name="fashion-mnist-10k",
        x=images.unsqueeze(1),
        y=labels.to(torch.int64),
        class_names=CLASS_NAMES,
        # What the papers' released code uses for MNIST.
        mean=(0.5071,),
        std=(0.2673,),
    )


def _read(name: str, dims: int) -> torch.Tensor:
    path = resources.files("potluck.data") / "files" / "fashion-mnist-10k" / name
    what = f"the file {path}"
    content = files.gunzip(files.read(path, _REMEDY), FILES[name].size or 0, what, _REMEDY)
    files.check(content, FILES[name], what, _REMEDY)
    return idx.parse(content, dims, what, _REMEDY)
