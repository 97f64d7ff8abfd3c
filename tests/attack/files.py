"""What can be in place of a file of text: other texts, none, and what is no file at all."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path

Make = Callable[[Path], object]


def texts(name: str, *others: str) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Each way to damage the file ``name`` of a folder as a whole; ``others`` are texts to put in its place."""

    def written(content: bytes) -> Callable[[Path], object]:
        return lambda folder: (folder / name).write_bytes(content)

    def changed(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
        return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))

    for text in others:
        yield f"{text.strip() or 'blank lines'} and nothing else", written(text.encode())
    yield "empty", written(b"")
    yield "random bytes", written(bytes(range(256)) * 8 + b"\n")
    yield "no UTF-8", changed(lambda content: content.replace(b'"', b'\xff"', 1))
    yield "UTF-16", changed(lambda content: content.decode().encode("utf-16"))
    yield "nested", written(b"[" * 200_000 + b"\n")
    yield "nested tables", written(b'{"a":' * 100_000 + b"\n")
    yield "ended in the middle", changed(lambda content: content[: len(content) // 2] + b"\n")
    yield "zero bytes", changed(lambda content: content + bytes(4096) + b"\n")
    yield "compressed", changed(gzip.compress)
    yield "control characters", changed(lambda content: content.replace(b":", b"\x1b]0;owned\x07:", 3))
    for kind, make in NO_FILES.items():
        yield kind, partial(_instead, name, make)


def _instead(name: str, make: Make, folder: Path) -> None:
    path = folder / name
    path.unlink()
    make(path)


def _bound(path: Path) -> None:
    # The name of a socket may not be long; a folder in between is none.
    with chdir(path.parent):
        socket.socket(socket.AF_UNIX).bind(path.name)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 29)


def _copied(path: Path) -> None:
    """A link to a file outside, which would be as good as the one that was here."""
    outside = path.parent.parent / f"outside-{path.name}"
    outside.write_text("{}\n")
    path.symlink_to(outside)


NO_FILES: dict[str, Make] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": _bound,
    "a link to a file outside": _copied,
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "half a gigabyte of nothing": _huge,
}
"""What can be where a file of text is expected, and is none."""
