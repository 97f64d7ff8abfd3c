"""Predictions of a batch of each of some clients, counted: recorded once and replayed, as steps are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from potluck.engines.base import Setting
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.reading import predict_batch
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Weights


def members(stack: Stack, clients: slice) -> tuple[Weights, Weights]:
    """What some clients of a stack hold, and what they received."""
    weights = {path: tensor[clients] for path, tensor in stack.weights.items()}
    return weights, {name: tensor[clients] for name, tensor in stack.received.items()}


def samples_of(pool: Pool, rows: Tensor, setting: Setting) -> tuple[Tensor, Tensor]:
    """The samples at ``rows``, as networks see them in a test, and their labels."""
    flat = rows.flatten()
    x = setting.transform.plain(pool.x.index_select(0, flat), setting.dtype)
    return x.view(*rows.shape, *x.shape[1:]), pool.y.index_select(0, flat).to(torch.int64).view(rows.shape)


class Examination:
    """Room for a batch of each of some clients.

    Args:
        stack: Has the clients.
        setting: What they have in common.
        pool: The samples.
        clients: Which of them.
        width: Samples of each, padding included.
        studio: Records the predictions, where that is possible.
    """

    def __init__(
        self, stack: Stack, setting: Setting, pool: Pool, clients: slice, width: int, studio: Studio
    ) -> None:  # fmt: skip
        self._stack, self._setting, self._pool, self._clients, self._studio = stack, setting, pool, clients, studio
        count, classes, device = clients.stop - clients.start, setting.task.classes, setting.device
        self._rows = torch.zeros(count, width, dtype=torch.int64, device=device)
        self._weight = torch.zeros(count, width, dtype=setting.dtype, device=device)
        self._counts = torch.zeros(count, classes, classes, dtype=torch.int64, device=device)
        self._received = stack.received
        self._used = False
        self._recording: Callable[[], None] | None = None

    @torch.no_grad()
    def counts(self, rows: Tensor, weight: Tensor) -> Tensor:
        """How often each client predicted class i (rows) as class j (columns), until this is asked for again.

        Args:
            rows: Which samples each client has in its batch.
            weight: 1 where a sample counts, 0 where it is padding.
        """
        self._rows.copy_(rows)
        self._weight.copy_(weight)
        self._stack.template.train(())
        if self._stack.received is not self._received:
            # A recording knows where things lay, and these now lie elsewhere.
            self._received, self._recording, self._used = self._stack.received, None, False
        if self._recording is None and self._used:
            self._recording = self._studio.record("examination", self._run)
        self._used = True  # to record what is done once would take longer than to do it
        (self._recording or self._run)()
        return self._counts

    def _run(self) -> None:
        template, classes = self._stack.template, self._setting.task.classes
        x, y = samples_of(self._pool, self._rows, self._setting)
        logits = predict_batch(
            template, self._setting.algorithm, *members(self._stack, self._clients), x, self._weight
        )  # fmt: skip
        cells = y * classes + logits.argmax(2)
        self._counts.zero_().flatten(1).scatter_add_(1, cells, self._weight.to(torch.int64))
