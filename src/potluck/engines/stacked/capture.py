"""Steps recorded as CUDA graphs: the host launches a step at once, instead of every operation of it."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from potluck.engines.stacked.operations.checks import undisturbed

_log = logging.getLogger("potluck")
_WARM_UP = 2
"""Steps before a first recording. In these, libraries are loaded and constants copied, which no recording may do."""


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep Python from collecting garbage: an older recording that is freed while another is made would spoil it."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class Studio:
    """Where steps are recorded that never run at the same time, and so share their memory.

    Args:
        device: Where steps run; only those on a GPU are recorded.
        known: Names of steps that were recorded before, there or elsewhere; more are added.
    """

    def __init__(self, device: torch.device, known: set[Hashable] | None = None) -> None:
        self._able = device.type == "cuda"
        self._pool: Any = torch.cuda.graph_pool_handle() if self._able else None
        self._known: set[Hashable] = set() if known is None else known
        self._refused: set[Hashable] = set()

    def records(self, name: Hashable) -> bool:
        """Whether steps of this name are recorded, as far as is known."""
        return self._able and name not in self._refused

    def record(self, name: Hashable, step: Callable[[], None]) -> Callable[[], None] | None:
        """The recording of ``step``; ``None`` where it cannot be recorded.

        Args:
            name: What it does. It is run before it is recorded, and the first of its name more than once.
            step: What to record.
        """
        if not self.records(name):
            return None
        for _ in range(1 if name in self._known else _WARM_UP):
            step()
        self._known.add(name)
        graph = torch.cuda.CUDAGraph()
        try:
            with (
                undisturbed(),
                _nothing_collected(),
                # Other threads may go on: they fetch what clients hold, or work on another GPU.
                torch.cuda.graph(
                    graph, pool=self._pool, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"
                ),
            ):
                step()
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if isinstance(error.__context__, torch.cuda.OutOfMemoryError):
                raise error.__context__ from None  # ending the recording failed because of this
            reason = str(error).strip().split("\n")[0]
            _log.info("steps are launched one operation at a time, for they cannot be recorded: %s", reason)
            self._refused.add(name)
            return None
        replay: Callable[[], None] = graph.replay
        return replay
