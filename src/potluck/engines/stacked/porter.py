"""Brings what clients hold from the device to the CPU, while the device and the host go on."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

from potluck.engines.stacked.recycled import Recycler
from potluck.engines.stacked.transfer import Arriving, fetching

_THREADS = 4
"""So many rows are copied at a time: what takes long is to get memory, and more threads get in each other's way."""


class Porter:
    """Copies rows of bytes, in threads of its own.

    A row travels by way of memory that the device can write to, which no other program can use.

    Args:
        limit: Bytes of rows that may be on their way at once, if these are not more by themselves.
        unused: Bytes of memory that are kept for later rows.

    >>> import torch
    >>> [int(row.result().sum()) for row in Porter(100, 100).brought(torch.ones(2, 3, dtype=torch.uint8))]
    [3, 3]
    """

    def __init__(self, limit: int, unused: int) -> None:
        self._limit, self._recycler = limit, Recycler(unused)
        self._threads = ThreadPoolExecutor(_THREADS, "potluck-rows")
        self._on_the_way = 0
        self._arrived = threading.Condition()

    def brought(self, rows: Tensor) -> list[Future[Tensor]]:
        """Each of some rows, as it will be when all that the stream of the device has to do is done."""
        with self._arrived:
            self._arrived.wait_for(lambda: not self._on_the_way or self._on_the_way + rows.nbytes <= self._limit)
            # Under the lock: what fails here must not count as on its way.
            arriving = fetching({"": rows})
            self._on_the_way += rows.nbytes
        return [self._threads.submit(self._copied, arriving, place) for place in range(len(rows))]

    def _copied(self, arriving: Arriving, place: int) -> Tensor:
        row = arriving.tensors[""][place]
        try:
            arriving.wait()
            return self._recycler.copied(row)
        finally:
            with self._arrived:
                self._on_the_way -= row.nbytes
                self._arrived.notify_all()
