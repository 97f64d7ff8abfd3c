"""Reading a published file, and making sure that it is the one that was published."""

from __future__ import annotations

import hashlib
from importlib.resources.abc import Traversable

from potluck.errors import DataError


def read(path: Traversable, remedy: str) -> bytes:
    """The content of a file; ``remedy`` is a sentence that says what to do where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"the file {path} is missing. {remedy}.") from None
    except OSError as error:
        raise DataError(f"the file {path} cannot be read ({error.strerror or error}). {remedy}.") from error


def check(content: bytes, path: Traversable, remedy: str, size: int, md5: str) -> None:
    """Compare a file's content with the size and the md5 sum of the published one."""
    if len(content) != size:
        how = "truncated" if len(content) < size else "too long"
        raise DataError(f"the file {path} is {how}: {len(content):,} bytes instead of {size:,}. {remedy}.")
    # The sum guards against damage, not against an adversary, and md5 is what publishers of data sets give.
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise DataError(f"the file {path} has the right size but not the published content: it was altered. {remedy}.")
