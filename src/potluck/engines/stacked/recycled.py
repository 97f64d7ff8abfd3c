"""Memory of the CPU, used again: getting it from the system takes longer than filling it."""

from __future__ import annotations

import mmap
import sys
import threading
import weakref
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

_LARGE = 1 << 20
"""Bytes from which memory is taken from the system by itself."""
_PAGE = 2 << 20
"""Bytes of a large page, as most systems have them."""


class Recycler:
    """Copies rows of bytes into memory that earlier copies no longer need.

    Memory comes back here when nothing refers to a copy any more, nor to a view of it.

    Args:
        limit: Bytes that may lie here unused; what comes back beyond that goes to the system.

    >>> recycler = Recycler(1000)
    >>> first = recycler.copied(torch.zeros(8, dtype=torch.uint8))
    >>> place = first.data_ptr()
    >>> del first
    >>> recycler.copied(torch.ones(8, dtype=torch.uint8)).data_ptr() == place
    True
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unused: dict[int, list[np.ndarray]] = {}
        self._bytes = 0
        # Of several threads; and what is handed back may be so while something is taken, in the same thread.
        self._lock = threading.RLock()

    def copied(self, row: Tensor) -> Tensor:
        """A copy of one row of bytes of the CPU."""
        with self._lock:
            unused = self._unused.get(row.nbytes)
            space = unused.pop() if unused else None
            self._bytes -= 0 if space is None else space.nbytes
        if space is None:
            space = fresh(row.nbytes)
        # Another object for the same memory, which lives as long as the tensor and all its views.
        lent = space.view()
        weakref.finalize(lent, self._take_back, space).atexit = False
        # By this thread alone: others at work would make all of PyTorch's wait for the last of them.
        np.copyto(lent, row.numpy())
        return torch.from_numpy(lent)

    def _take_back(self, space: np.ndarray) -> None:
        with self._lock:
            if self._bytes + space.nbytes <= self._limit:
                self._unused.setdefault(space.nbytes, []).append(space)
                self._bytes += space.nbytes


def fresh(size: int) -> np.ndarray:
    """New memory for so many bytes, which goes back to the system when nothing refers to it.

    That of C's allocator often does not: rows that come and go on several threads leave gaps that fit nothing else, a
    gigabyte of them where clients hold some six megabytes each.

    >>> fresh(3 << 20).shape
    (3145728,)
    """
    if size < _LARGE:
        return np.empty(size, dtype=np.uint8)
    if sys.platform == "win32":
        return np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = size // _PAGE * _PAGE
    if whole and hasattr(mmap, "MADV_HUGEPAGE"):
        # Large pages are filled sooner, once the system has them. Not to the end: a page that two rows share would stay
        # until both are gone.
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE, 0, whole)
    return np.frombuffer(memory, dtype=np.uint8)
