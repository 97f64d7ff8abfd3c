"""Small files in the published formats; a reader is told their sizes and checksums in place of the published ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from potluck.data.sources import cifar10, cifar100, emnist_letters, fashion_mnist, mnist
from potluck.data.sources.published import File, Form, Published

Contents = dict[str, bytes]


def retold(form: Form, contents: Contents) -> Form:
    """The form, if its files had been published with these contents."""
    files = {
        name: File(len(content), _md5(content) if form.files[name].md5 else None) for name, content in contents.items()
    }
    assert list(files) == list(form.files)
    return replace(form, files=files)


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def stored(form: Form, contents: Contents) -> Contents:
    """The contents as they lie on disk."""
    return {name: gzip.compress(content, 1) for name, content in contents.items()} if form.compressed else contents


def folder(path: Path, form: Form, contents: Contents) -> Path:
    """The files in a folder."""
    path.mkdir(parents=True)
    for name, content in stored(form, contents).items():
        (path / name).write_bytes(content)
    return path


def tar(path: Path, form: Form, contents: Contents, more: Mapping[str, bytes] | None = None) -> Path:
    """The files in an archive like CIFAR's: another order, and a file that nobody reads."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        named = {f"{form.inside}/{name}": content for name, content in reversed(stored(form, contents).items())}
        for name, content in ({f"{form.inside}/readme.html": b"hello"} | named | dict(more or {})).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(path: Path, form: Form, contents: Contents) -> Path:
    """The files in an archive like EMNIST's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{form.inside}/emnist-digits-mapping.txt", "0 48")
        for name, content in stored(form, contents).items():
            archive.writestr(f"{form.inside}/{name}", content)
    return path


def idx(values: np.ndarray) -> bytes:
    """An array of bytes in the idx format."""
    header = bytes([0, 0, 8, values.ndim]) + b"".join(length.to_bytes(4, "big") for length in values.shape)
    return header + values.astype(np.uint8).tobytes()


def idx_contents(form: Form, train: int = 12, test: int = 5, classes: int = 10, first: int = 0) -> Contents:
    """The four files of a relative of MNIST."""
    rng = np.random.default_rng(0)
    contents = {}
    for name in form.files:
        count = train if "train" in name else test
        shape = (count, 28, 28) if "images" in name else (count,)
        limits = (0, 256) if "images" in name else (first, first + classes)
        contents[name] = idx(rng.integers(*limits, shape))
    return contents


def binary_contents(form: Form, classes: int, label_bytes: int, records: int = 5) -> Contents:
    """CIFAR's binary files; the file called train has five times the records."""
    rng = np.random.default_rng(1)
    contents = {}
    for name in form.files:
        values = rng.integers(0, 256, (records * (5 if name == "train.bin" else 1), label_bytes + 3072), dtype=np.uint8)
        values[:, :label_bytes] %= classes
        contents[name] = values.tobytes()
    return contents


def python_contents(form: Form, binary: Contents, label_bytes: int, key: bytes) -> Contents:
    """CIFAR's Python files, with the samples of the binary ones."""
    contents = {}
    for name, content in zip(form.files, binary.values(), strict=True):
        records = np.frombuffer(content, np.uint8).reshape(-1, label_bytes + 3072)
        x, y = np.ascontiguousarray(records[:, label_bytes:]), records[:, label_bytes - 1].tolist()
        contents[name] = pickle.dumps({b"batch_label": b"made", key: y, b"data": x, b"filenames": [b"a.png"]}, 3)
    return contents


FORMS: dict[str, Published] = {
    "mnist": mnist.PUBLISHED,
    "fashion-mnist": fashion_mnist.PUBLISHED,
    "emnist-letters": emnist_letters.PUBLISHED,
    "cifar-10": cifar10.PUBLISHED,
    "cifar-100": cifar100.PUBLISHED,
}
