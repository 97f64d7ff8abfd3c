"""The networks that clients hold between rounds: in memory while there is room, in the run's folder otherwise."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from potluck.algorithms.uploads import State
from potluck.errors import ChangedRunError, RunError
from potluck.run.files import make_folder, read_tensors, reason, refuse_links, size_of, write_tensors

Version = tuple[int, int]
"""The round in which a client's state was made, and the checksum of its file."""

_LEAST, _MOST, _SHARE = 256 << 20, 1 << 30, 64
"""Bytes of client states kept in memory when there is a folder for the rest: a share of what the machine has."""

_WRITERS = 4
"""States of a checkpoint are written so many at a time: two cores then take less than half the time."""

_OURS = re.compile(r"round-[0-9]{5,}\.safetensors|\..*\.part")
"""Files that are written here, whole or half; any others in a client's folder are not ours to delete."""


class ClientStates:
    """States by client; only clients that have trained have one.

    A state is never overwritten: each round makes new files, so that a checkpoint stays whole while later rounds
    go on, and a round that fails half-way leaves nothing behind but files that nobody refers to.

    Args:
        folder: Where states go when memory is full; ``None`` keeps them all in memory.
        memory: How many bytes may stay in memory when there is a folder; by default as many as suit the machine.
    """

    def __init__(self, folder: Path | None, memory: int | None = None) -> None:
        self._folder = folder
        self._room = _suitable() if memory is None else memory
        self._rounds: dict[int, int] = {}
        self._staged: dict[int, int] = {}
        self._memory: OrderedDict[tuple[int, int], State] = OrderedDict()
        self._written: dict[tuple[int, int], int] = {}
        self._sizes: dict[tuple[int, int], int | None] = {}
        self._promised: set[tuple[int, int]] = set()
        self._bytes = 0

    def get(self, client: int) -> State | None:
        """What a client held after the last committed round; ``None`` if it never trained."""
        if client not in self._rounds:
            return None
        entry = (client, self._rounds[client])
        if entry not in self._memory:
            self._keep(entry, read_tensors(self._path(entry), self._written.get(entry)))
        self._memory.move_to_end(entry)
        return self._memory[entry]

    def stage(self, client: int, round: int, state: State) -> None:
        """Take a client's state of a round that is not over yet."""
        entry = (client, round)
        # A round that was begun before and given up may have left a state of the same name.
        self._forget(entry)
        self._written.pop(entry, None)
        self._staged[client] = round
        self._keep(entry, state)

    def commit(self) -> None:
        """The round is over: what was staged is what the clients hold."""
        for client, round in self._staged.items():
            if client in self._rounds:
                self._drop((client, self._rounds[client]))
            self._rounds[client] = round
        self._staged.clear()

    def discard(self) -> None:
        """The round failed: what was staged is forgotten."""
        for client, round in self._staged.items():
            self._forget((client, round))
        self._staged.clear()

    def flush(self) -> dict[int, Version]:
        """Write everything that clients hold; where to find it again."""
        with ThreadPoolExecutor(_WRITERS) as writers:
            list(writers.map(self._write, self._rounds.items()))
        self._promised |= self._rounds.items()
        return {client: (round, self._written[client, round]) for client, round in sorted(self._rounds.items())}

    def check(self) -> None:
        """Raise ``ChangedRunError`` unless the files of what clients hold are there, as long as they were."""
        if self._folder is None:
            return
        for entry in self._rounds.items():
            if entry in self._written and size_of(self._path(entry)) != self._sizes[entry]:
                raise ChangedRunError(
                    f"{self._path(entry)} was deleted or changed while the run was going on: put it back as it was, "
                    "or start a new run."
                )

    def refuse_links(self) -> None:
        """Raise if there is anything but folders and regular files where states are, or a folder for a state."""
        if self._folder is None:
            return
        refuse_links(self._folder)
        for path in self._folder.glob("*/round-*"):
            if _OURS.fullmatch(path.name) and path.is_dir():
                raise RunError(f"{path} is a folder, and has to be a regular file: remove it.")

    def restore(self, versions: Mapping[int, Version]) -> None:
        """Go back to what :meth:`flush` told."""
        self._rounds = {client: round for client, (round, _) in versions.items()}
        self._written = {(client, round): crc for client, (round, crc) in versions.items()}
        self._sizes = {entry: size_of(self._path(entry)) for entry in self._written}
        self._promised = set(self._written)
        self._staged.clear()
        self._memory.clear()
        self._bytes = 0

    def prune(self, kept: Iterable[Mapping[int, Version]]) -> None:
        """Delete files that none of the ``kept`` checkpoints refers to."""
        if self._folder is None or not self._folder.is_dir():
            return
        self._promised = {(client, round) for versions in kept for client, (round, _) in versions.items()}
        needed = {str(self._path(entry)) for entry in self._promised}
        try:
            with os.scandir(self._folder) as clients:
                # Links are not followed: what they point to belongs to others.
                folders = [client.path for client in clients if client.is_dir(follow_symlinks=False)]
            for folder in folders:
                with os.scandir(folder) as files:
                    found = list(files)
                gone = [file for file in found if file.path not in needed and _OURS.fullmatch(file.name)]
                for file in gone:
                    os.unlink(file.path)  # noqa: PTH108 (there may be many, and no Path is needed)
                if len(gone) == len(found):
                    os.rmdir(folder)  # noqa: PTH106
        except OSError as error:
            raise RunError(f"cannot tidy up {self._folder}: {reason(error)}.") from error
        self._written = {entry: crc for entry, crc in self._written.items() if str(self._path(entry)) in needed}
        self._sizes = {entry: self._sizes[entry] for entry in self._written}

    def path(self, client: int, version: Version) -> Path:
        """The file that holds a state."""
        return self._path((client, version[0]))

    def _path(self, entry: tuple[int, int]) -> Path:
        client, round = entry
        return (self._folder or Path()) / str(client) / f"round-{round:05d}.safetensors"

    def _keep(self, entry: tuple[int, int], state: State) -> None:
        self._memory[entry] = state
        self._bytes += _size(state)
        while self._folder is not None and self._bytes > self._room and len(self._memory) > 1:
            oldest = next(iter(self._memory))
            self._write(oldest)
            self._forget(oldest)

    def _forget(self, entry: tuple[int, int]) -> None:
        state = self._memory.pop(entry, None)
        if state is not None:
            self._bytes -= _size(state)

    def _drop(self, entry: tuple[int, int]) -> None:
        """Forget a state that nobody holds any more, and its file too unless a checkpoint refers to it."""
        self._forget(entry)
        if entry in self._written and entry not in self._promised:
            del self._written[entry]
            try:
                self._path(entry).unlink(missing_ok=True)
            except OSError as error:
                raise RunError(f"cannot remove {self._path(entry)}: {reason(error)}.") from error

    def _write(self, entry: tuple[int, int]) -> None:
        if entry not in self._written and self._folder is not None:
            make_folder(self._folder)
            make_folder(self._path(entry).parent)
            crc, self._sizes[entry] = write_tensors(self._path(entry), self._memory[entry])
            self._written[entry] = crc


def _suitable() -> int:
    """How much memory to take for states."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        return _LEAST
    return min(max(whole // _SHARE, _LEAST), _MOST)


def _size(state: State) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())
