"""The errors a user can cause, each with a message that says what was wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PotluckError(Exception):
    """Base of every error that Potluck raises on purpose; the command line prints it without a traceback.

    Its arguments are the lines of the message, mostly one. A name with a line break in it does not begin another.
    """

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class ConfigError(PotluckError):
    """A setting is unknown, of the wrong type or out of range."""


class DataError(PotluckError):
    """A data set is missing, damaged or does not fit what was asked of it."""


class DataWarning(UserWarning):
    """A request that can be met but is probably not what was meant; commands print it in a line."""


class ModelError(PotluckError):
    """A network does not fit the task or the algorithm."""


class AlgorithmError(PotluckError):
    """A custom method is declared wrongly, or one of its hooks failed."""


class PayloadError(PotluckError):
    """What arrived from the other side is not what was expected."""


class RunError(PotluckError):
    """A run folder cannot be created, read or resumed."""


class BusyRunError(RunError):
    """Another process is working in the run's folder."""


class ChangedRunError(RunError):
    """A run's folder was deleted, moved or changed by others while the run went on."""


class TrainingError(PotluckError):
    """Training went wrong, for example a loss that is no longer finite."""


class InterruptedRunError(PotluckError):
    """The run was asked to stop, and did, after its last complete round."""


def nearest(name: str, known: Iterable[str], kind: str) -> str:
    """Say that ``name`` is no known ``kind``, with the nearest right name.

    >>> nearest("pfedse", ["fedavg", "pfedes"], "algorithm")
    "unknown algorithm 'pfedse': did you mean 'pfedes'? Known: fedavg, pfedes."
    >>> nearest("x", ["fedavg", "pfedes"], "algorithm")
    "unknown algorithm 'x'. Known: fedavg, pfedes."
    """
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f": did you mean {close[0]!r}?" if close else "."
    return f"unknown {kind} {name!r}{hint} Known: {', '.join(names)}."
