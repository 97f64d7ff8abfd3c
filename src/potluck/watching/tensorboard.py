"""A run in TensorBoard, live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from potluck.errors import ConfigError
from potluck.watching.callback import Callback

FOLDER = "tensorboard"
"""Where in a run's folder its events lie."""


class TensorBoard(Callback):
    """Writes each round's scores, loss and costs, and a histogram of the clients' accuracies, as they come.

    Look at them with ``tensorboard --logdir runs``. It needs the extra ``track``.

    Args:
        folder: Where to write, for example a run's own folder with ``/tensorboard`` behind it.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError(
                "TensorBoard is not installed. Get it with: pip install tensorboard (or, in a clone of Potluck, "
                "pip install -e '.[track]')."
            ) from error
        self._make: Any = SummaryWriter
        self._folder = Path(folder)
        self._writer: Any = None

    def run_begun(self, rounds: int, done: int) -> None:
        """Open the file; what an earlier part of the run wrote beyond its checkpoint does not count any more."""
        del rounds
        self._writer = self._make(str(self._folder), purge_step=done + 1, flush_secs=5)

    def evaluated(self, round: int, scores: dict[str, Any], clients: dict[int, dict[str, Any]]) -> None:
        """Write the scores of all clients."""
        self._numbers("all clients", scores, round)
        accuracies = [own["accuracy"] for own in clients.values() if own["accuracy"] is not None]
        if accuracies:
            import numpy as np

            self._writer.add_histogram("all clients/accuracy of each", np.array(accuracies), round)

    def round_over(self, record: dict[str, Any]) -> None:
        """Write the scores of those who took part, the loss and the costs."""
        number = record["round"]
        self._numbers("participants", {**record["participants"], "loss": record["loss"]}, number)
        costs = ("bytes_up", "bytes_down", "flops", "server_flops", "seconds")
        self._numbers("costs", {key: record[key] for key in costs}, number)
        self._numbers("observed", record.get("observed", {}), number)
        self._writer.flush()

    def run_over(self, summary: dict[str, Any]) -> None:
        """Close the file."""
        del summary
        self._writer.close()

    def _numbers(self, group: str, values: dict[str, Any], round: int) -> None:
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(f"{group}/{name.replace('_', ' ')}", value, round)
