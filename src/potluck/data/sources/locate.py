"""Where data sets are looked for on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from potluck.data.sources.files import Found
from potluck.data.sources.published import Form
from potluck.errors import DataError


def places(data_dir: str | Path | None = None) -> list[Path]:
    """The folders that may hold data sets, in the order in which they are searched."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # unset, or to be ignored by the XDG specification
        cache = Path("~/.cache")
    candidates = [data_dir, os.environ.get("POTLUCK_DATA"), cache / "potluck"]
    # os.path's expanduser leaves a path alone where there is no such home; that of pathlib raises.
    found = [Path(os.path.expanduser(place)) for place in candidates if place]  # noqa: PTH111
    return list(dict.fromkeys(found))


def locate(name: str, forms: Sequence[Form], data_dir: str | Path | None = None) -> Found:
    """Find a data set by the names under which it was published.

    Args:
        name: The name it is loaded by, for the error message.
        forms: The forms in which it was published; the first that is there is taken.
        data_dir: Where to look first.

    Raises:
        DataError: It is in none of the places, or cannot be opened.
    """
    searched = places(data_dir)
    for place in searched:
        found = _in_place(place, forms)
        if found:
            return found
    tried = ", ".join(str(place) for place in searched)
    folder = forms[0].folders[0]
    raise DataError(
        f"the folder {folder}/ was found in none of: {tried}. {forms[0].remedy} in one of them (or let 'potluck data "
        f"fetch {name}' do it), or name the folder that holds {folder}/ with --data-dir or $POTLUCK_DATA."
    )


def _in_place(place: Path, forms: Sequence[Form]) -> Found | None:
    """A folder with at least one of the files, or an archive; failing both, a folder, whose files are missing."""
    empty = None
    for form in forms:
        for folder in form.folders:
            entries = _entries(place, folder)
            if entries is None:
                continue
            if not entries.isdisjoint(form.files):
                return Found(form, place / folder)
            empty = empty or Found(form, place / folder)
        for archive in form.archives:
            if _is_file(place / archive):
                return Found(form, place / archive)
    # Folders with several possible names are called by general words, such as gzip/: others may have one, too.
    return empty if empty and len(empty.form.folders) == 1 else None


def _entries(place: Path, folder: str) -> set[str] | None:
    """The names in a folder; None where there is no such folder."""
    path = place / folder
    try:
        with os.scandir(path) as listing:
            return {entry.name for entry in listing}
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        # Either the data set is a file where a folder should be, or the place itself is no folder.
        wrong = path if place.is_dir() else place
        raise DataError(f"{wrong} is a file, not a folder: give the folder that holds {folder}/.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise DataError(f"cannot open {path} ({reason}): make the folder readable, or name another.") from error


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise DataError(f"cannot look for {path} ({error.strerror}): make its folder readable.") from error
