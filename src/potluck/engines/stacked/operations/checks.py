"""Kernels are compared with PyTorch's operations before they are first used: compilers of kernels are young.

To compile them takes a second or two each. So those that are likely to be needed next are compiled at the same time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache

import torch
from torch import Tensor

_log = logging.getLogger("potluck")
_TOLERANCE = 0.05
"""Of the largest number; a kernel that is wrong is wrong by more, and half precision by less."""

Check = Callable[..., bool]

_found: dict[Hashable, Future[bool]] = {}


def passes(check: Check, what: str, among: Sequence[str], device: torch.device, *given: Hashable) -> bool:
    """Whether a kernel, as compiled for something, gives what PyTorch does; said aloud if it does not.

    Args:
        check: Compares one of several kernels.
        what: Which one is needed now.
        among: All of them: whoever needs one soon needs the others.
        device: Where it will run.
        given: What it is compiled for.
    """
    for one in (what, *among) if device.type == "cuda" else (what,):
        key = check, one, device, given
        if key not in _found:
            _found[key] = _begun(_outcome, check, one, device, given)
    key = check, what, device, given
    try:
        return _found[key].result()
    except torch.cuda.OutOfMemoryError:
        del _found[key]  # there may be room for it later
        raise


def finish() -> None:
    """Wait until nothing is compiled any more: no recording may be made meanwhile."""
    wait([outcome for outcome in _found.values() if not outcome.done()])


def forget() -> None:
    """Compare all kernels anew."""
    _found.clear()


def _outcome(check: Check, what: str, device: torch.device, given: tuple[Hashable, ...]) -> bool:
    try:
        with torch.no_grad(), torch.cuda.device(device if device.type == "cuda" else -1):
            right, reason = check(what, device, *given), "gave wrong numbers"
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a compiler may say, there is another way
        right, reason = False, f"did not run ({(str(error).strip() or type(error).__name__).splitlines()[0]})"
    if not right:
        _log.warning("a kernel of ours (%s) %s; PyTorch's own is used instead.", what, reason)
    return right


def _begun(outcome: Callable[..., bool], check: Check, what: str, device: torch.device, given: object) -> Future[bool]:
    if device.type == "cuda":
        return _workers().submit(outcome, check, what, device, given)
    done: Future[bool] = Future()
    done.set_result(outcome(check, what, device, given))
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
