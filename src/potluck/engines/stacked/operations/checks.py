"""Kernels are compared with PyTorch's operations before they are first used: compilers of kernels are young.

To compile them takes a second or two each. So those that are likely to be needed next are compiled at the same time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import torch
from torch import Tensor

_log = logging.getLogger("potluck")
_TOLERANCE = 0.05
"""Of the largest number; a kernel that is wrong is wrong by more, and half precision by less."""

Check = Callable[..., bool]

_found: dict[Hashable, Future[bool | None]] = {}
_lock = threading.RLock()


class _Gate:
    """Lets kernels be compared side by side, but not while anybody records."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working = self._recording = 0
        self._own = threading.local()

    @property
    def is_recording(self) -> bool:
        """Whether it is this thread that records."""
        return getattr(self._own, "recording", False)

    @contextmanager
    def working(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._recording)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    @contextmanager
    def recording(self) -> Iterator[None]:
        with self._changed:
            self._recording += 1
            self._changed.wait_for(lambda: not self._working)
        self._own.recording = True
        try:
            yield
        finally:
            self._own.recording = False
            with self._changed:
                self._recording -= 1
                self._changed.notify_all()


_gate = _Gate()


def undisturbed() -> AbstractContextManager[None]:
    """While active, nothing is compiled or compared: no recording may be made meanwhile."""
    return _gate.recording()


def passes(check: Check, what: str, among: Sequence[str], device: torch.device, *given: Hashable) -> bool:
    """Whether a kernel, as compiled for something, gives what PyTorch does; said aloud if it does not.

    Args:
        check: Compares one of several kernels.
        what: Which one is needed now.
        among: All of them: whoever needs one soon needs the others.
        device: Where it will run.
        given: What it is compiled for.
    """
    key = check, what, device, given
    with _lock:
        for one in (what, *among) if device.type == "cuda" else (what,):
            if (check, one, device, given) not in _found:
                if _gate.is_recording:
                    raise RuntimeError(f"a kernel ({what}) is needed that was not compared before.")
                _found[check, one, device, given] = _begun(check, one, device, given)
        wanted = _found[key]
    outcome = wanted.result()
    if outcome is None:  # memory had ended, maybe long ago
        outcome = None if _gate.is_recording else _outcome(check, what, device, given)
        with _lock:
            _found.pop(key, None)
        if outcome is None:
            raise torch.cuda.OutOfMemoryError(f"there is no memory left to try a kernel ({what}).")
    return outcome


def forget() -> None:
    """Compare all kernels anew."""
    with _lock:
        _found.clear()


def _outcome(check: Check, what: str, device: torch.device, given: tuple[Hashable, ...]) -> bool | None:
    """Whether a kernel is right; nothing, if there was not enough memory to find out."""
    try:
        with _gate.working(), torch.no_grad(), torch.cuda.device(device if device.type == "cuda" else -1):
            right, reason = check(what, device, *given), "gave wrong numbers"
    except torch.cuda.OutOfMemoryError:
        return None
    except Exception as error:  # whatever a compiler may say, there is another way
        right, reason = False, f"did not run ({(str(error).strip() or type(error).__name__).splitlines()[0]})"
    if not right:
        _log.warning("a kernel of ours (%s) %s; PyTorch's own is used instead.", what, reason)
    return right


def _begun(check: Check, what: str, device: torch.device, given: tuple[Hashable, ...]) -> Future[bool | None]:
    if device.type == "cuda":
        return _workers().submit(_outcome, check, what, device, given)
    done: Future[bool | None] = Future()
    done.set_result(_outcome(check, what, device, given))
    return done


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(os.cpu_count() or 1, 2), thread_name_prefix="compiling")


def agree(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    """Whether what kernels gave is what PyTorch gives, up to rounding."""
    return all(
        float((one.double() - other).abs().max()) <= _TOLERANCE * float(other.abs().max())
        for one, other in zip(found, expected, strict=True)
    )
