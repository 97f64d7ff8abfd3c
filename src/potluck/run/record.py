"""What a federation keeps of itself: in memory, and in a run's folder if it has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potluck.algorithms.uploads import State
from potluck.errors import RunError
from potluck.metrics.protocol import History
from potluck.run.checkpoint import Checkpoint, Checkpoints
from potluck.run.folder import RECORDS, RunFolder
from potluck.run.inputs import Began, refuse_other_inputs
from potluck.run.states import ClientStates
from potluck.settings import flat

FREE = {"data_dir", "checkpoint_every", "measure"}
"""Settings that may change between two parts of a run: no number depends on them."""


@dataclass(frozen=True)
class Restored:
    """Where a run goes on: from the beginning, unless there was a checkpoint."""

    history: History = field(default_factory=History)
    server: State | None = None
    problems: list[str] = field(default_factory=list)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which settings differ that a run's numbers depend on, in words; nothing if none does.

    >>> changes({"seed": 0, "data_dir": "/a"}, {"seed": 1, "data_dir": "/b"})
    'seed was 0, now 1'
    """
    old, new = flat(before), flat(now)
    keys = sorted((old.keys() | new.keys()) - FREE)
    return "; ".join(
        f"{key} was {old.get(key)!r}, now {new.get(key)!r}" for key in keys if old.get(key) != new.get(key)
    )


class RunRecord:
    """Client states, records and checkpoints of one run.

    Args:
        path: The run's folder; ``None`` keeps everything in memory.
        config: What to write as its configuration.
        began: Gives what the run begins with, or would go on with; without it, that is not recorded or checked.
    """

    def __init__(self, path: Path | None, config: dict[str, Any], began: Began | None = None) -> None:
        self.path = path
        self._began = began
        self.states = ClientStates(path / "clients" if path else None)
        self.config = config
        self._folder: RunFolder | None = None
        self._checkpoints = Checkpoints(path / "checkpoint", self.states) if path else None
        self._saved: int | None = None
        self._behind = False

    def begin(self) -> None:
        """Make the folder if it is not there yet, and keep other processes out of it."""
        if self._behind:
            raise RunError(f"the last round could not be written to {self.path}: go back to before it by restore().")
        if self.path is not None and self._folder is None:
            self._folder = RunFolder.create(self.path, self.config, self._began and self._began().plain())
        if self._folder is not None:
            self._folder.lock()
            self._folder.unfinish()

    def commit_round(self, round: dict[str, Any], clients: list[dict[str, Any]]) -> None:
        """A round is over: what was staged counts, and its records are written."""
        self._behind = True
        if self._folder is not None:
            self._folder.append("clients.jsonl", *clients)
            self._folder.append("rounds.jsonl", round)
        self.states.commit()
        self._behind = False

    def abandon_round(self) -> None:
        """A round failed: nothing of it counts."""
        self.states.discard()

    def checkpoint(self, round: int, server: State) -> None:
        """Make a point to resume from."""
        if self._behind:
            return  # the last round could not be recorded: the point to resume from is the one before
        if self._folder is not None and self._checkpoints is not None and round != self._saved:
            self._checkpoints.save(round, self.config, self._folder.lengths(), server)
            self._saved = round

    def restore(self, *, to_read: bool = False) -> Restored:
        """Open the folder at its newest whole checkpoint.

        To go on with the run, its records are cut back to the checkpoint, and other processes kept out; ``to_read``
        changes nothing, and takes finished runs too.
        """
        if self.path is None or self._checkpoints is None:
            raise RunError("a federation without a folder (out=...) has nothing to restore.")
        folder = RunFolder.open(self.path)
        if not to_read:
            folder.refuse_finished()
            folder.lock()
        try:
            found = self._checkpoints.newest()
            if found:
                self._refuse_changes(found.checkpoint)
            if self._began is not None:
                refuse_other_inputs(self.path, self._began())
        except RunError:
            folder.close()  # or nobody in this process could try again
            raise
        lengths = found.checkpoint.records if found else dict.fromkeys(RECORDS, 0)
        if found:
            self.states.restore(found.checkpoint.clients)
            self._saved = found.checkpoint.round
        if not to_read:
            folder.cut(lengths)
            self._folder, self._behind = folder, False
        if not found:
            return Restored()
        problems = found.problems + ([] if to_read else folder.moved())
        return Restored(read_history(folder, found.checkpoint.round), found.server, problems)

    def _refuse_changes(self, checkpoint: Checkpoint) -> None:
        details = changes(checkpoint.config, self.config)
        if details:
            raise RunError(
                f"the configuration of {self.path} has changed since its checkpoint: {details}. "
                "Put it back, or start a new run."
            )

    def finish(self, summary: dict[str, Any]) -> None:
        """The run is over."""
        if self._folder is not None:
            self._folder.finish(summary)

    def close(self) -> None:
        """Close the folder's files."""
        if self._folder is not None:
            self._folder.close()


def read_history(folder: RunFolder, last: int | None = None) -> History:
    """The history in a run's records, up to the round ``last``."""
    rounds = [record for record in folder.records("rounds.jsonl") if last is None or record["round"] <= last]
    evaluated = [record["round"] for record in rounds if record["all"] is not None]
    accuracy: dict[int, float | None] = {}
    if evaluated:
        for record in folder.records("clients.jsonl"):
            if record["round"] == evaluated[-1]:
                accuracy[record["client"]] = record["accuracy"]
    return History(rounds, [accuracy[client] for client in sorted(accuracy)])
