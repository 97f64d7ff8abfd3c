"""What is found in a batch of each of some clients: recorded once and replayed, as steps are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from potluck.contract import Batch
from potluck.engines.base import Setting
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.reading import Reading
from potluck.engines.stacked.stack import Stack


class Examination:
    """Room for a batch of each of some clients.

    Args:
        reading: What is found in a batch.
        stack: Has the clients.
        setting: What they have in common.
        pool: The samples.
        clients: Which of them.
        width: Samples of each, padding included.
        studio: Records the reading, where that is possible.
    """

    def __init__(
        self, reading: Reading, stack: Stack, setting: Setting, pool: Pool, clients: slice, width: int, studio: Studio
    ) -> None:  # fmt: skip
        self._reading, self._stack, self._setting, self._pool = reading, stack, setting, pool
        self._clients, self._studio = clients, studio
        shape, device = (clients.stop - clients.start, width), setting.device
        self._rows, self._index = (torch.zeros(shape, dtype=torch.int64, device=device) for _ in range(2))
        self._weight = torch.zeros(shape, dtype=setting.dtype, device=device)
        self._found: dict[str, Tensor] = {}
        self._received = stack.received
        self._used = False
        self._recording: Callable[[], None] | None = None

    @torch.no_grad()
    def of(self, rows: Tensor, index: Tensor, weight: Tensor) -> dict[str, Tensor]:
        """What is found in a batch, until this is asked for again.

        Args:
            rows: Which samples each client has in its batch.
            index: Which of its own samples these are.
            weight: 1 where a sample counts, 0 where it is padding.
        """
        for ours, given in ((self._rows, rows), (self._index, index), (self._weight, weight)):
            ours.copy_(given)
        self._stack.template.train(())
        if self._stack.received is not self._received:
            # A recording knows where things lay, and these now lie elsewhere.
            self._received, self._recording, self._used, self._found = self._stack.received, None, False, {}
        if self._recording is None and self._used:
            self._recording = self._studio.record(self._reading, self._run)
        self._used = True  # to record what is done once would take longer than to do it
        (self._recording or self._run)()
        return self._found

    def _run(self) -> None:
        stack, clients, setting = self._stack, self._clients, self._setting
        weights = {path: tensor[clients] for path, tensor in stack.weights.items()}
        received = {name: tensor[clients] for name, tensor in stack.received.items()}
        flat = self._rows.flatten()
        x = setting.transform.plain(self._pool.x.index_select(0, flat), setting.dtype)
        x = x.view(*self._rows.shape, *x.shape[1:])
        y = self._pool.y.index_select(0, flat).to(torch.int64).view(self._rows.shape)
        batch = Batch((x,), y, self._weight, self._index, self._index)
        found = self._reading(stack.template, setting.algorithm, weights, received, batch)
        if not self._found:  # in its first run, which is not recorded: the memory of a recording is used by others, too
            self._found = {name: torch.empty_like(tensor) for name, tensor in found.items()}
        for name, tensor in found.items():
            self._found[name].copy_(tensor)
