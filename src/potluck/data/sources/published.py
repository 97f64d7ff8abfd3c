"""What a data set was published as: its files, with their sizes and checksums, and the archives that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A published file.

    Attributes:
        size: Its size in bytes; of a file compressed by gzip, that of its content. (The compressed bytes are no good
            for comparing: the same data set circulates compressed by different programs.) None where it is not known.
        md5: The md5 sum of the same bytes; None where nobody published one.
    """

    size: int | None
    md5: str | None = None


@dataclass(frozen=True)
class Download:
    """What the data set's own site offers.

    Attributes:
        path: Where it is put, below the folder of all data sets.
        urls: Where to get it; the second is asked where the first fails.
        size: Its size in bytes.
        md5: Its published md5 sum.
    """

    path: str
    urls: tuple[str, ...]
    size: int
    md5: str


@dataclass(frozen=True)
class Form:
    """One of the forms in which a data set was published.

    Attributes:
        folders: Names under which its folder may lie in a folder of data sets; the first is its usual one.
        files: The files in that folder, by name.
        remedy: What to do where something is missing or damaged, as the beginning of a sentence.
        archives: Names under which the archive of that folder may lie beside it, to be read as it is.
        inside: The name of the folder in the archive.
        compressed: Whether every file is compressed by gzip.
        downloads: Where to get it.
    """

    folders: tuple[str, ...]
    files: Mapping[str, File]
    remedy: str
    archives: tuple[str, ...] = ()
    inside: str = ""
    compressed: bool = False
    downloads: tuple[Download, ...] = ()


@dataclass(frozen=True)
class Published:
    """A data set as its authors published it.

    Attributes:
        about: What is in it, in a few words.
        forms: The forms in which it was published; the first is the one that is fetched.
    """

    about: str
    forms: tuple[Form, ...]
