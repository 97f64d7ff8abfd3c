"""Getting data sets from their authors' own sites: resumable, and checked against what was published.

Nothing here is used by a run: data are fetched when somebody asks for it, and only then.
"""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from potluck import __version__, messages
from potluck.data import sources
from potluck.data.sources.files import Found
from potluck.data.sources.locate import places
from potluck.data.sources.published import Download, Form
from potluck.errors import DataError

Watch = Callable[[str, int, int], None]
"""Called with the name of a file, how many bytes of it have arrived, and how many there are."""

_BLOCK = 1 << 16
_PATIENCE_S = 30
_TRIES = 5
"""How often a connection that breaks off is made again, without a byte more than ever before."""


def fetch(name: str, data_dir: str | Path | None = None, watch: Watch = lambda *_: None) -> Path:
    """Get a data set into the first of the folders where data sets are looked for, unless it is there already.

    What has arrived stays when this is interrupted, and the next call goes on from there. A file that somebody put
    where it would be downloaded to is taken, and stays there.

    Args:
        name: The data set.
        data_dir: The folder of data sets; without it ``$POTLUCK_DATA``, and without that the user's cache.
        watch: Told how it goes.

    Returns:
        The folder with its files, all of which are the published ones.

    Raises:
        DataError: There is no network, or no room, or what came is not what was published; it says what to do.
    """
    if sources.is_path(name):
        raise DataError(f"{name} is a path: only data sets with a name can be fetched, see 'potluck data list'.")
    published = sources.published(name)
    if published is None:
        raise DataError(f"{name} is a part of Potluck: there is nothing to fetch.")
    place, form = places(data_dir)[0], published.forms[0]
    folder = place / form.folders[0]
    missing = [download for download in form.downloads if not _is_there(form, folder, download)]
    for index, download in enumerate(missing):
        target = place / download.path
        given = target.exists() and matches(target, download)
        if not given:
            _make(target.parent)
            try:
                _download(download, target, watch)
            except _NetworkError as error:
                raise DataError(*_advice(str(error), command(name, data_dir), place, missing[index:])) from error
        if download.path in form.archives:
            _unpack(Found(form, target), folder)
            if not given:  # an archive may hold more than the files that are unpacked
                target.unlink()
    return folder


def command(name: str, data_dir: str | Path | None) -> str:
    """The command that fetches a data set.

    >>> command("mnist", "my data")
    "potluck data fetch mnist --data-dir 'my data'"
    """
    where: list[str | Path] = ["--data-dir", Path(data_dir)] if data_dir else []
    return messages.command("data", "fetch", name, *where)


def _advice(reason: str, again: str, place: Path, missing: Sequence[Download]) -> list[str]:
    """What to do without a network, or with one that does not work, in lines."""
    return [
        *reason.splitlines(),
        f"To try again, going on with what has arrived: {again}",
        "Without a network, get by other means what is listed here, put it into the folder "
        f"{(place / missing[0].path).parent.absolute()} and run the same command, which checks it:",
        *(f"  {download.urls[-1]} ({download.size:,} bytes, md5 {download.md5})" for download in missing),
    ]


def _is_there(form: Form, folder: Path, download: Download) -> bool:
    """Whether what a download brings is there already, as published."""
    archived = download.path in form.archives
    try:
        for name in form.files if archived else [Path(download.path).name]:
            Found(form, folder).content(name)
    except DataError:
        return False
    return True


def matches(path: Path, download: Download) -> bool:
    """Whether a file is the one that the data set's own site offers."""
    if path.stat().st_size != download.size:
        return False
    with path.open("rb") as file:
        # The sum guards against damage, not against an adversary, and md5 is what publishers of data sets give.
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return digest.hexdigest() == download.md5


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the folder {folder} ({error.strerror}): name another with --data-dir or $POTLUCK_DATA."
        ) from error


# ---- over the network ---------------------------------------------------------------------------------------------


def _download(download: Download, target: Path, watch: Watch) -> None:
    part = target.with_name(target.name + ".part")
    reasons = []
    for url in download.urls:
        begun = part.exists()
        try:
            _get(url, part, download, lambda done: watch(target.name, done, download.size))
            if begun and not matches(part, download):
                # What had arrived before was of something else: all of it once more.
                part.unlink()
                _get(url, part, download, lambda done: watch(target.name, done, download.size))
        except _NetworkError as error:
            reasons.append(f"{url}: {error}")
            continue
        if matches(part, download):
            part.replace(target)
            return
        part.unlink()
        reasons.append(f"{url}: what came is not the published file")
    raise _NetworkError(f"cannot get {target.name}:" + "".join(f"\n  {reason}" for reason in reasons))


class _NetworkError(Exception):
    """The other side cannot be reached, or does not give what it should."""


def _get(url: str, part: Path, download: Download, watch: Callable[[int], None]) -> None:
    """Bring ``part`` to its full size, going on where it ends, as often as the connection breaks and more has come."""
    left, most = _TRIES, 0
    while (have := part.stat().st_size if part.exists() else 0) < download.size:
        most = max(most, have)
        reason = _get_more(url, part, have, download.size, watch)
        # More than the last time is not enough: whoever does not know of ranges begins anew each time.
        left = _TRIES if part.stat().st_size > most else left - 1
        if left == 0:
            raise _NetworkError(reason)
    if have > download.size:
        part.unlink()
        raise _NetworkError(f"it gives more than {download.size:,} bytes")
    watch(have)


def _get_more(url: str, part: Path, have: int, size: int, watch: Callable[[int], None]) -> str:
    """Ask once for what is missing; why it did not all come, if so."""
    headers = {"User-Agent": f"potluck/{__version__}"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - one of the URLs of published data sets
    try:
        response = urllib.request.urlopen(request, timeout=_PATIENCE_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()  # it is longer than what they have
        raise _NetworkError(f"it answers {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise _NetworkError(str(getattr(reason, "strerror", None) or reason)) from error
    # Whoever does not know of ranges sends everything.
    done = have if response.status == http.client.PARTIAL_CONTENT else 0
    with response, _writing(part, "ab" if done else "wb") as file:
        watch(done)
        while done <= size:
            try:
                block = response.read(_BLOCK)
            except (http.client.HTTPException, OSError) as error:
                return str(error)
            if not block:
                break
            file.write(block)
            done += len(block)
            watch(done)
    return f"the connection broke off after {done:,} bytes"


@contextmanager
def _writing(path: Path, mode: Literal["ab", "wb"]) -> Iterator[IO[bytes]]:
    try:
        with path.open(mode) as file:
            yield file
    except OSError as error:
        raise DataError(
            f"cannot write {path} ({error.strerror}): make room there, or name another folder with --data-dir or "
            "$POTLUCK_DATA."
        ) from error


# ---- on the disk --------------------------------------------------------------------------------------------------


def _unpack(archive: Found, folder: Path) -> None:
    """Put the files of an archive that belong to the data set into their folder."""
    _make(folder)
    for name, content in archive.stored():
        part = folder / f"{name}.part"
        with _writing(part, "wb") as file:
            file.write(content)
        part.replace(folder / name)
