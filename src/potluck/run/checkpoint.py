"""Checkpoints: a point to which a killed run goes back, and from which it ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from potluck.algorithms.uploads import State
from potluck.errors import ChangedRunError, RunError
from potluck.run.files import (
    checksum,
    checksum_to,
    make_folder,
    read_json,
    read_tensors,
    reason,
    refuse_links,
    size_of,
    write_json,
    write_tensors,
)
from potluck.run.lines import RECORDS, Mark
from potluck.run.states import ClientStates, Version
from potluck.settings import is_shallow

VERSION = 2
_KEPT = 2
"""Checkpoints kept: the newest, and the one before in case the newest is damaged."""
_NAME = re.compile("round-[0-9]{5,}")
_MOST = 1 << 28
"""Bytes that a manifest may have."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood after a round.

    Attributes:
        round: Rounds that were over.
        config: The whole configuration, so that a changed one is noticed.
        records: Length in bytes of each file of records, and the checksum of these bytes.
        clients: The version of the state of each client that ever trained.
        server: Checksum of the server's state.
        version: Version of this format.
    """

    round: int
    config: dict[str, Any]
    records: dict[str, Mark]
    clients: dict[int, Version]
    server: int
    version: int = VERSION


@dataclass(frozen=True)
class Found:
    """A whole checkpoint, the server's state in it, and what was wrong with newer ones."""

    checkpoint: Checkpoint
    server: State
    problems: list[str]


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, states: ClientStates) -> None:
        self._folder = folder
        self._states = states
        self._sizes: dict[Path, int | None] = {}

    def save(self, round: int, config: dict[str, Any], records: Mapping[str, Mark], server: State) -> None:
        """Write a checkpoint; only when it is whole does anything older go."""
        folder = self._path(round)
        clients = self._states.flush()
        make_folder(self._folder)
        make_folder(folder)
        server_checksum, _ = write_tensors(folder / "server.safetensors", server)
        checkpoint = Checkpoint(round, config, dict(records), clients, server_checksum)
        content = {**asdict(checkpoint), "clients": {str(client): version for client, version in clients.items()}}
        # The manifest is written last: a checkpoint without one does not exist.
        write_json(folder / "manifest.json", {"crc32": _fingerprint(content), "checkpoint": content})
        self._sizes = {path: size_of(path) for path in (folder / "server.safetensors", folder / "manifest.json")}
        self._prune(checkpoint)

    def check(self) -> None:
        """Raise ``ChangedRunError`` unless the files of the newest checkpoint are there, as long as they were."""
        for path, size in self._sizes.items():
            if size_of(path) != size:
                raise ChangedRunError(
                    f"{path} was deleted or changed while the run was going on: put it back as it was, or start a new "
                    "run."
                )
        self._states.check()

    def tidy(self, found: Found | None) -> None:
        """Remove what no checkpoint needs, such as the half of one whose writer was killed; ``found`` is the newest."""
        if found is not None:
            self._prune(found.checkpoint)
            return
        for number in self._numbers():
            self._remove(number)
        self._states.prune([])

    def _prune(self, newest: Checkpoint) -> None:
        kept = {newest.round: newest}
        for number in self._numbers():
            older = None if number in kept or number > newest.round or len(kept) >= _KEPT else self._read(number)
            if older is not None:
                kept[number] = older
            elif number not in kept:
                self._remove(number)
        self._states.prune(checkpoint.clients for checkpoint in kept.values())

    def _remove(self, number: int) -> None:
        path = self._path(number)
        try:
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise RunError(f"{path} is no folder: remove it.")
            # The manifest goes first: without it the rest, should it stay, is no checkpoint.
            manifest = path / "manifest.json"
            if size_of(manifest) is not None:
                manifest.unlink()
            shutil.rmtree(path)
        except OSError as error:
            raise RunError(f"cannot remove {path}: {reason(error)}.") from error

    def newest(self) -> Found | None:
        """The newest checkpoint that is whole; ``None`` if the run was stopped before its first."""
        problems: list[str] = []
        self._states.refuse_links()
        refuse_links(self._folder)
        for number in self._numbers():
            if not (self._path(number) / "manifest.json").exists():
                continue  # its writer was stopped half-way
            checkpoint = self._read(number)
            problem = "its manifest is damaged" if checkpoint is None else self._damage(checkpoint)
            if checkpoint is not None and problem is None:
                return Found(checkpoint, read_tensors(self._path(number) / "server.safetensors"), problems)
            problems.append(f"The checkpoint of round {number} is not usable: {problem}.")
        if problems:
            raise RunError(
                f"{self._folder.parent} cannot be resumed. {' '.join(problems)} Start it again in a new folder."
            )
        return None

    def _damage(self, checkpoint: Checkpoint) -> str | None:
        """The first file of a checkpoint that is not as it was written."""
        for path, expected in self._files(checkpoint):
            if checksum(path) != expected:
                return f"{path} is missing or damaged"
        for name, mark in checkpoint.records.items():
            path = self._folder.parent / name
            if (mark.length or os.path.lexists(path)) and checksum_to(path, mark.length) != mark.crc:
                return f"{path} is missing, too short or changed"
        return None

    def _files(self, checkpoint: Checkpoint) -> Iterator[tuple[Path, int]]:
        yield self._path(checkpoint.round) / "server.safetensors", checkpoint.server
        for client, version in checkpoint.clients.items():
            yield self._states.path(client, version), version[1]

    def _read(self, number: int) -> Checkpoint | None:
        try:
            envelope = read_json(self._path(number) / "manifest.json", _MOST)
            content = envelope["checkpoint"]
            if _fingerprint(content) != envelope["crc32"]:
                return None
            if content["version"] == VERSION:
                return _checked(content, number)
            version = content["version"]
        except (RunError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        if type(version) is not int:
            return None
        raise RunError(f"{self._folder} was written in format {version}, not {VERSION}.")

    def _numbers(self) -> list[int]:
        """The rounds that have a checkpoint folder, newest first."""
        numbers = [int(path.name[6:]) for path in self._folder.glob("round-*") if _NAME.fullmatch(path.name)]
        return sorted((number for number in set(numbers) if os.path.lexists(self._path(number))), reverse=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"round-{number:05d}"


def _fingerprint(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _checked(content: dict[str, Any], number: int) -> Checkpoint:
    """A checkpoint of what a manifest says; an error if that is of the wrong types or of another round."""
    config, records, clients = content["config"], content["records"], content["clients"]
    if (
        content["round"] != number
        or records.keys() != set(RECORDS)
        or not (isinstance(config, dict) and is_shallow(config))
    ):
        raise ValueError
    versions = {int(client): _pair(version) for client, version in clients.items()}
    if any(str(client) not in clients or not 0 <= made <= number for client, (made, _) in versions.items()):
        raise ValueError
    server = content["server"]
    if type(server) is not int:
        raise TypeError
    return Checkpoint(number, config, {name: Mark(*_pair(mark)) for name, mark in records.items()}, versions, server)


def _pair(value: Any) -> tuple[int, int]:
    first, second = value
    if type(first) is not int or type(second) is not int or min(first, second) < 0:
        raise TypeError
    return first, second
