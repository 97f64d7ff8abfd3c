"""Where data sets are looked for on disk."""

from __future__ import annotations

import os
from pathlib import Path

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


def locate(folder: str, origin: str, data_dir: str | Path | None = None) -> Path:
    """Find the folder of a data set by the name it was published under.

    Args:
        folder: Its name, such as ``cifar-10-batches-bin``.
        origin: What it is unpacked from, and where to get that, for the error message.
        data_dir: Where to look first.

    Raises:
        DataError: It is in none of the places, or cannot be opened.
    """
    searched = places(data_dir)
    for place in searched:
        path = place / folder
        try:
            os.scandir(path).close()
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            # Either the data set is a file where a folder should be, or the place itself is no folder.
            wrong = path if place.is_dir() else place
            raise DataError(f"{wrong} is a file, not a folder: give the folder that holds {folder}/.") from None
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise DataError(f"cannot open {path} ({reason}): make the folder readable, or name another.") from error
        return path
    tried = ", ".join(str(place) for place in searched)
    raise DataError(
        f"the folder {folder}/ was found in none of: {tried}. Unpack {origin} in one of them, "
        f"or name the folder that holds {folder}/ with --data-dir or $POTLUCK_DATA."
    )
