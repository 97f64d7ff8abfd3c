"""Brings what clients hold from a device to the CPU, while the device and the host go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

from potluck.engines.stacked.recycled import Recycler
from potluck.engines.stacked.transfer import Arriving, fetching


class Porter:
    """Copies rows of bytes.

    A row of a GPU travels by way of memory that the GPU can write to, which no other program can use.

    Args:
        recycler: Gives the memory where rows end.
        limit: Bytes of rows that may be on their way at once, if these are not more by themselves.
        threads: How many wait for rows and copy them; with none, rows are copied at once.

    >>> import torch
    >>> porter = Porter(Recycler(100), limit=100, threads=2)
    >>> [int(row.result().sum()) for row in porter.brought(torch.ones(2, 3, dtype=torch.uint8))]
    [3, 3]
    """

    def __init__(self, recycler: Recycler, limit: int, threads: int) -> None:
        self._recycler, self._limit = recycler, limit
        self._threads = ThreadPoolExecutor(threads, "potluck-rows") if threads else None
        self._on_the_way = 0
        self._arrived = threading.Condition()

    def brought(self, rows: Tensor) -> list[Future[Tensor]]:
        """Each of some rows, as it will be when all that the stream of the device has to do is done."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._on_the_way <= 0 or self._on_the_way + rows.nbytes <= self._limit)
            self._on_the_way += rows.nbytes
        leaves = [self._leave(row.nbytes) for row in rows]
        try:
            arriving = fetching({"": rows})
            return [self._begun(arriving, place, leave) for place, leave in enumerate(leaves)]
        except BaseException:
            for leave in leaves:  # nobody shall wait for what is not on its way
                leave()
            raise

    def _leave(self, size: int) -> Callable[[], None]:
        """What says, once and for all, that a row of so many bytes is no longer on its way."""
        left = [size]

        def leave() -> None:
            with self._arrived:
                self._on_the_way -= left.pop() if left else 0
                self._arrived.notify_all()

        return leave

    def _begun(self, arriving: Arriving, place: int, leave: Callable[[], None]) -> Future[Tensor]:
        if self._threads is not None:
            return self._threads.submit(self._copied, arriving, place, leave)
        done: Future[Tensor] = Future()
        done.set_result(self._copied(arriving, place, leave))
        return done

    def _copied(self, arriving: Arriving, place: int, leave: Callable[[], None]) -> Tensor:
        try:
            return self._recycler.copied(arriving.wait()[""][place])
        finally:
            leave()
