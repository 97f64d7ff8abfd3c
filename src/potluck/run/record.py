"""What a federation keeps of itself: in memory, and in a run's folder if it has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potluck.algorithms.uploads import State
from potluck.errors import RunError
from potluck.metrics.protocol import History
from potluck.run.checkpoint import Checkpoint, Checkpoints, Found
from potluck.run.folder import RunFolder
from potluck.run.inputs import Began, refuse_other_inputs
from potluck.run.lines import Mark
from potluck.run.states import ClientStates
from potluck.settings import flat

FREE = {"data_dir", "checkpoint_every", "measure"}
"""Settings that may change between two parts of a run: no number depends on them."""

_LONGEST = 100
"""Characters of a value in a message."""


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
        f"{key} was {_shown(old.get(key))}, now {_shown(new.get(key))}" for key in keys if old.get(key) != new.get(key)
    )


def _shown(value: Any) -> str:
    """A value as it stands in a message, of which a damaged file may hold any."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


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
            self._folder.check()
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
            self._check()
            self._checkpoints.save(round, self.config, self._folder.marks(), server)
            self._saved = round

    def _check(self, *, whole: bool = False) -> None:
        """Raise ``ChangedRunError`` if others changed the folder; after that nothing more is written."""
        if self._folder is None or self._checkpoints is None:
            return
        behind, self._behind = self._behind, True
        self._folder.check(whole=whole)
        self._checkpoints.check()
        self._behind = behind

    def restore(self, *, to_read: bool = False, fits: Callable[[State], None] | None = None) -> Restored:
        """Open the folder at its newest whole checkpoint.

        To go on with the run, its records are cut back to the checkpoint, what killed processes left is removed, and
        other processes kept out. Nothing changes if anything is refused.

        Args:
            to_read: Change nothing, and take finished runs too. There has to be a checkpoint, of a finished run that
                of its last round: nothing else holds what the clients came to.
            fits: Raises unless a state of the server is one that this run could have.
        """
        if self.path is None or self._checkpoints is None:
            raise RunError("a federation without a folder (out=...) has nothing to restore.")
        folder = RunFolder.open(self.path)
        try:
            if not to_read:
                folder.refuse_finished()
                folder.lock()
            found = self._checkpoints.newest()
            if found:
                self._refuse_changes(found.checkpoint)
                if fits is not None:
                    fits(found.server)
            if self._began is not None:
                refuse_other_inputs(self.path, self._began())
            if to_read:
                _refuse_unfit_to_read(folder, found)
            history = _history_at(folder, found.checkpoint) if found else History()
            if not to_read:
                folder.cut(found.checkpoint.records if found else {})
                self._checkpoints.tidy(found)
                folder.tidy()
        except BaseException:
            folder.close()  # or this process could not try again
            raise
        if found:
            self.states.restore(found.checkpoint.clients)
            self._saved = found.checkpoint.round
        if not to_read:
            self._folder, self._behind = folder, False
        if not found:
            return Restored()
        problems = found.problems + ([] if to_read else folder.moved())
        return Restored(history, found.server, problems)

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
            self._folder.lock()
            self._check(whole=True)
            self._folder.finish(summary)

    def close(self) -> None:
        """Close the folder's files."""
        if self._folder is not None:
            self._folder.close()


def read_history(folder: RunFolder, marks: Mapping[str, Mark] | None = None) -> History:
    """The history in a run's records, up to ``marks``."""
    upto = {name: mark.length for name, mark in (marks or {}).items()}
    rounds = list(folder.records("rounds.jsonl", upto.get("rounds.jsonl")))
    evaluated = [record["round"] for record in rounds if record["all"] is not None]
    accuracy: dict[int, float | None] = {}
    if evaluated:
        for record in folder.records("clients.jsonl", upto.get("clients.jsonl")):
            if record["round"] == evaluated[-1]:
                accuracy[record["client"]] = record["accuracy"]
    return History(rounds, [accuracy[client] for client in sorted(accuracy)])


def _refuse_unfit_to_read(folder: RunFolder, found: Found | None) -> None:
    """Raise unless the clients' networks of a run are there, those of a finished one as they were in the end."""
    finished = folder.summary() is not None
    again = "Put the missing files back, or run it again in a new folder." if finished else folder.going_on
    if found is None:
        raise RunError(f"{folder.path} has no checkpoint, and with it no trained networks to open. {again}")
    if not finished:
        return
    last = [record["round"] for record in folder.records("rounds.jsonl")][-1:]
    if last != [found.checkpoint.round]:
        details = " ".join(found.problems) or "A newer checkpoint is missing."
        raise RunError(
            f"{folder.path} is finished, and its newest whole checkpoint is of round {found.checkpoint.round}, not of "
            f"its last. {details} {again}"
        )


def _history_at(folder: RunFolder, checkpoint: Checkpoint) -> History:
    """The history up to a checkpoint; ``RunError`` unless the two belong together."""
    history = read_history(folder, checkpoint.records)
    trained = {
        client: record["round"]
        for record in history.rounds
        for client in sorted(set(record["cohort"]) - set(record["failed"]))
    }
    last = history.rounds[-1]["round"] if history.rounds else 0
    if last != checkpoint.round:
        raise RunError(
            f"{folder.path} is damaged: its records end with round {last}, its checkpoint is of round "
            f"{checkpoint.round}. Start it again in a new folder."
        )
    if trained != {client: made for client, (made, _) in checkpoint.clients.items()}:
        raise RunError(
            f"{folder.path} is damaged: its checkpoint of round {last} is not of the clients that trained by its "
            "records. Start it again in a new folder."
        )
    return history
