"""Checkpoints: a point to which a killed run goes back, and from which it ends as if nothing had happened."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from potluck.algorithms.uploads import State
from potluck.errors import RunError
from potluck.run.files import checksum, read_tensors, write_json, write_tensors
from potluck.run.states import ClientStates, Version

VERSION = 1
_KEPT = 2
"""Checkpoints kept: the newest, and the one before in case the newest is damaged."""
_NAME = re.compile("round-[0-9]{5,}")


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood after a round.

    Attributes:
        round: Rounds that were over.
        config: The whole configuration, so that a changed one is noticed.
        records: Length in bytes of each file of records.
        clients: The version of the state of each client that ever trained.
        server: Checksum of the server's state.
        version: Version of this format.
    """

    round: int
    config: dict[str, Any]
    records: dict[str, int]
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

    def save(self, round: int, config: dict[str, Any], records: dict[str, int], server: State) -> None:
        """Write a checkpoint; only when it is whole does anything older go."""
        folder = self._path(round)
        clients = self._states.flush()
        server_checksum = write_tensors(folder / "server.safetensors", server)
        checkpoint = Checkpoint(round, config, records, clients, server_checksum)
        content = {**asdict(checkpoint), "clients": {str(client): version for client, version in clients.items()}}
        # The manifest is written last: a checkpoint without one does not exist.
        write_json(folder / "manifest.json", {"crc32": _fingerprint(content), "checkpoint": content})
        self._prune(checkpoint)

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
        try:
            # The manifest goes first: without it the rest, should it stay, is no checkpoint.
            (self._path(number) / "manifest.json").unlink(missing_ok=True)
            shutil.rmtree(self._path(number))
        except OSError as error:
            raise RunError(f"cannot remove {self._path(number)}: {error.strerror or error}.") from error

    def newest(self) -> Found | None:
        """The newest checkpoint that is whole; ``None`` if the run was stopped before its first."""
        problems: list[str] = []
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
        for name, length in checkpoint.records.items():
            path = self._folder.parent / name
            if not path.is_file() or path.stat().st_size < length:
                return f"{path} is missing or too short"
        return None

    def _files(self, checkpoint: Checkpoint) -> Iterator[tuple[Path, int]]:
        yield self._path(checkpoint.round) / "server.safetensors", checkpoint.server
        for client, version in checkpoint.clients.items():
            yield self._states.path(client, version), version[1]

    def _read(self, number: int) -> Checkpoint | None:
        try:
            envelope = json.loads((self._path(number) / "manifest.json").read_text())
            content = envelope["checkpoint"]
            if _fingerprint(content) != envelope["crc32"]:
                return None
            if content["version"] != VERSION:
                raise RunError(f"{self._folder} was written in format {content['version']}, not {VERSION}.")
            content["clients"] = {int(client): tuple(version) for client, version in content["clients"].items()}
            return Checkpoint(**content)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _numbers(self) -> list[int]:
        """The rounds that have a checkpoint folder, newest first."""
        numbers = [int(path.name[6:]) for path in self._folder.glob("round-*") if _NAME.fullmatch(path.name)]
        return sorted(numbers, reverse=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"round-{number:05d}"


def _fingerprint(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
