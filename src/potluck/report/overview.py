"""A run on disk at a glance, finished or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from potluck.errors import RunError
from potluck.metrics.protocol import MEANING, summarize
from potluck.run.folder import RunFolder
from potluck.run.record import read_history

_SHOWN = {"algorithm", "client_accuracy", "bytes_up", "bytes_down", "flops", *MEANING}


@dataclass(frozen=True)
class Overview:
    """What is known of a run.

    Attributes:
        summary: How good it is, and what it cost.
        seconds: Of all its rounds.
        going_on: How it goes on; nothing if it is finished.
    """

    summary: dict[str, Any]
    seconds: float
    going_on: str = ""


def overview(path: Path) -> Overview:
    """Read a run; one that is not finished is summarised as far as it got."""
    folder = RunFolder.open(path)
    try:
        return _read(folder)
    except (KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged: its records are not those of a run.") from error


def _read(folder: RunFolder) -> Overview:
    history = read_history(folder)
    seconds = sum(record["seconds"] for record in history.rounds)
    summary = folder.summary()
    if summary is not None and summary.keys() >= _SHOWN:
        return Overview(summary, seconds)
    if summary is not None:
        raise RunError(f"{folder.path / 'summary.json'} is damaged: it is no summary of a run.")
    if not history.rounds:
        raise RunError(f"{folder.path} has no finished round to show yet. {folder.going_on}")
    return Overview(summarize(folder.config(), history), seconds, folder.going_on)
