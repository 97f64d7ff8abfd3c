"""Reading published files from a folder or an archive, and making sure that they are the ones that were published."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

from potluck.data.sources.published import File, Form
from potluck.errors import DataError

_MORE = 64 << 20
"""How much an archive may hold beside the files whose size is known, and by how much a file may be too large."""
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Found:
    """A data set on disk: a folder of files, or the archive of that folder."""

    form: Form
    path: Path

    @property
    def is_archive(self) -> bool:
        """Whether this is an archive."""
        return not self.path.is_dir()

    def contents(self) -> Iterator[tuple[str, str, bytes]]:
        """Every file as its name, how to call it in a message, and its content, which is the published one.

        Those of an archive come in its own order.

        Raises:
            DataError: A file is missing, damaged or something else.
        """
        for name, what, raw in self._members():
            yield name, what, self._checked(name, raw, what)

    def stored(self) -> Iterator[tuple[str, bytes]]:
        """The same files as they lie there: those that are compressed, compressed."""
        for name, what, raw in self._members():
            self._checked(name, raw, what)
            yield name, raw

    def _members(self) -> Iterator[tuple[str, str, bytes]]:
        if not self.is_archive:
            for name in self.form.files:
                yield name, f"the file {self.path / name}", self._raw(name)
            return
        missing = set(self.form.files)
        for name, raw in _archived(self.path, self.form):
            missing.discard(name)
            yield name, f"the file {self.form.inside}/{name} in {self.path}", raw
        if missing:
            raise DataError(
                f"the archive {self.path} does not hold {self.form.inside}/{min(missing)}. {self.form.remedy} again."
            )

    def content(self, name: str) -> tuple[str, bytes]:
        """How to call a file of the folder in a message, and its content, which is the published one."""
        what = f"the file {self.path / name}"
        return what, self._checked(name, self._raw(name), what)

    def _raw(self, name: str) -> bytes:
        return read(self.path / name, f"{self.form.remedy} again", (self.form.files[name].size or 0) + _MORE)

    def _checked(self, name: str, raw: bytes, what: str) -> bytes:
        published, remedy = self.form.files[name], f"{self.form.remedy} again"
        content = gunzip(raw, published.size or _MORE, what, remedy) if self.form.compressed else raw
        check(content, published, what, remedy)
        return content


def read(path: Traversable, remedy: str, most: int = _MORE) -> bytes:
    """The content of a file, which is not to be of more than ``most`` bytes: no more than that is ever read.

    ``remedy`` is a sentence that says what to do where it cannot be read.
    """
    try:
        with path.open("rb") as file:
            content: bytes = file.read(most + 1)
    except FileNotFoundError:
        raise DataError(f"the file {path} is missing. {remedy}.") from None
    except OSError as error:
        raise DataError(f"the file {path} cannot be read ({error.strerror or error}). {remedy}.") from error
    if len(content) > most:
        raise DataError(f"the file {path} has more than {most:,} bytes, so it is not the published one. {remedy}.")
    return content


def check(content: bytes, published: File, what: str, remedy: str) -> None:
    """Compare a file's content with the size and the checksum of the published one."""
    if published.size is not None and len(content) != published.size:
        how = "truncated" if len(content) < published.size else "too long"
        raise DataError(f"{what} is {how}: {len(content):,} bytes instead of {published.size:,}. {remedy}.")
    # The sum guards against damage, not against an adversary, and md5 is what publishers of data sets give.
    if published.md5 is not None and hashlib.md5(content, usedforsecurity=False).hexdigest() != published.md5:
        raise DataError(f"{what} has the right size but not the published content: it was altered. {remedy}.")


def gunzip(content: bytes, size: int, what: str, remedy: str) -> bytes:
    """What gzip compressed, which is to be of ``size`` bytes: no more than that is ever unpacked."""
    unpacker = zlib.decompressobj(wbits=31)  # 31: a gzip header
    try:
        unpacked = unpacker.decompress(content, size + 1)
    except zlib.error as error:
        raise DataError(f"{what} is damaged, or was not made by gzip ({error}). {remedy}.") from error
    if len(unpacked) > size:
        raise DataError(f"{what} unpacks to more than {size:,} bytes, so it is not the published one. {remedy}.")
    if not unpacker.eof:
        raise DataError(f"{what} is truncated: its compressed data end too early. {remedy}.")
    if unpacker.unused_data:
        raise DataError(f"{what} is damaged: something follows its compressed data. {remedy}.")
    return unpacked


def _archived(path: Path, form: Form) -> Iterator[tuple[str, bytes]]:
    """The files of an archive that belong to a form; nothing that is larger than published is unpacked."""
    wanted = {f"{form.inside}/{name}": name for name in form.files}
    reader = _in_zip if path.suffix == ".zip" else _in_tar
    try:
        yield from reader(path, form, wanted)
    except Exception as error:  # a damaged archive can raise any kind
        reason = "it is truncated" if isinstance(error, EOFError) else str(error).rstrip(".")
        raise DataError(f"the archive {path} cannot be read: {reason}. {form.remedy} again.") from error


class _Limited(gzip.GzipFile):
    """A compressed file that gives at most ``limit`` bytes, and then refuses."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(path)
        self.left = self.limit = limit

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self.left -= len(content)
        if self.left < 0:
            raise tarfile.TarError(f"it unpacks to more than {self.limit:,} bytes")
        return content


def _in_tar(path: Path, form: Form, wanted: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    # As a stream: what is not wanted is passed over, and nothing is read twice.
    limit = sum(file.size or 0 for file in form.files.values()) + _MORE
    with _Limited(path, limit) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            name = wanted.get(member.name.removeprefix("./"))
            file = archive.extractfile(member) if name and member.isreg() else None
            if name and file:
                yield name, file.read()


def _in_zip(path: Path, form: Form, wanted: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        held = {member.filename: member for member in archive.infolist()}
        for full, name in wanted.items():
            if full not in held:
                continue
            # A file that gzip compressed may be larger than its content, but not much.
            if held[full].file_size > (form.files[name].size or 0) + _MORE:
                raise zipfile.BadZipFile(f"{full} in it has {held[full].file_size:,} bytes, more than published")
            yield name, bytes(unzip(archive, held[full]))


def unzip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytearray:
    """A file in an archive; whatever was packed there, no more is unpacked than it claims to hold."""
    # Of the other ways to compress, Python unpacks all there is at once.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile(f"{member.filename} in it is compressed in an unusual way")
    content = bytearray(member.file_size)
    done, room = 0, memoryview(content)
    with archive.open(member) as stream:
        # Block by block: asked for the whole, it would also unpack what is beyond, before cutting that off.
        while done < len(content):
            block = stream.read(_BLOCK)
            if not block:
                raise EOFError
            room[done : done + len(block)] = block
            done += len(block)
    return content
