"""EMNIST Letters (Cohen et al., arXiv:1702.05373): 28x28 handwritten letters, capital and small ones in one class.

Its authors publish all of EMNIST as one archive of idx files, ``gzip.zip``. Labels in it count from 1, and images are
stored column by column.
"""

from __future__ import annotations

import string
from pathlib import Path

from potluck.data.sources.base import Source
from potluck.data.sources.idx import read_parts
from potluck.data.sources.locate import locate
from potluck.data.sources.published import Download, File, Form, Published
from potluck.errors import DataError

_TRAIN, _TEST = 124_800, 20_800
_SITE = "https://www.nist.gov/itl/products-and-services/emnist-dataset"

PUBLISHED = Published(
    about="124,800 + 20,800 letters, 28x28, 26 classes",
    forms=(
        Form(
            folders=("emnist/gzip", "emnist", "gzip"),
            # The sum of the whole archive is published, those of its files are not.
            files={
                "emnist-letters-train-images-idx3-ubyte.gz": File(16 + _TRAIN * 28 * 28),
                "emnist-letters-train-labels-idx1-ubyte.gz": File(8 + _TRAIN),
                "emnist-letters-test-images-idx3-ubyte.gz": File(16 + _TEST * 28 * 28),
                "emnist-letters-test-labels-idx1-ubyte.gz": File(8 + _TEST),
            },
            remedy=f"Unpack gzip.zip from {_SITE} in emnist/",
            archives=("emnist/gzip.zip", "gzip.zip"),
            inside="gzip",
            compressed=True,
            downloads=(
                Download(
                    "emnist/gzip.zip",
                    ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
                    561_753_746,
                    "58c8d27c78d21e728a6bc7b3cc06412e",
                ),
            ),
        ),
    ),
)


def load(data_dir: str | Path | None = None) -> Source:
    """Read the letters from ``emnist/gzip``, ``emnist``, ``gzip`` or the archive ``gzip.zip``."""
    found = locate("emnist-letters", PUBLISHED.forms, data_dir)
    x, y, test_from = read_parts(found, "emnist-letters-train", "emnist-letters-test")
    low, high = int(y.min()), int(y.max())
    if not 1 <= low <= high <= len(string.ascii_uppercase):
        raise DataError(
            f"the label files in {found.path} hold labels from {low} to {high}, those of EMNIST Letters are from 1 to "
            f"26. {found.form.remedy} again."
        )
    return Source(
        name="emnist-letters",
        x=x.transpose(2, 3).contiguous(),
        y=y - 1,
        class_names=tuple(string.ascii_uppercase),
        # What FedClassAvg's released code uses for it.
        mean=(0.5,),
        std=(0.5,),
        test_from=test_from,
        default_split="release",
    )
