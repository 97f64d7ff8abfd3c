"""Kernels of our own, where there is a compiler for them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from math import log
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor

_log = logging.getLogger("potluck")
_TOLERANCE = 1e-4


@cache
def compiled() -> SimpleNamespace | None:
    """All kernels; PyTorch brings their compiler along for GPUs on Linux."""
    if find_spec("triton") is None:
        return None
    from potluck.engines.stacked.operations.kernels import (
        augmentation,
        blocks,
        convolution,
        descent,
        entropy,
        linear,
        normalization,
        pooling,
    )

    modules: tuple[ModuleType, ...] = (
        augmentation, blocks, convolution, descent, entropy, linear, normalization, pooling,
    )  # fmt: skip
    public = {name: function for module in modules for name, function in vars(module).items() if name[0] != "_"}
    kernels = SimpleNamespace(**public)
    if torch.cuda.is_available():
        # In a thread of its own: who asks for kernels may be in the midst of a vmap.
        with ThreadPoolExecutor(1) as beside:
            reason = beside.submit(_why_not, kernels, modules).result()
        if reason is not None:
            _log.warning("kernels of ours cannot be compiled here (%s): PyTorch's own are used.", reason)
            return None
    return kernels


def _why_not(kernels: SimpleNamespace, modules: Sequence[ModuleType]) -> str | None:
    """What is in the way of using kernels; nothing, if one of them runs."""
    try:
        found = kernels.entropy(torch.zeros(1, 2, device="cuda"), torch.zeros(1, dtype=torch.int64, device="cuda"))
        # Older compilers lose track if this is found out by several threads at once.
        for function in (one for module in modules for one in vars(module).values()):
            getattr(function, "cache_key", None)
    except Exception as error:  # whatever a compiler may say, there is another way
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None if abs(float(found) - log(2)) < _TOLERANCE else f"one gave {float(found)} for the logarithm of 2"


def suitable(x: Tensor) -> SimpleNamespace | None:
    """The kernels, if they can work on tensors like ``x``, which may be one within a vmap."""
    return compiled() if x.is_cuda and x.dtype in (torch.float32, torch.bfloat16) else None


def usable(x: Tensor, *others: Tensor | None) -> SimpleNamespace | None:
    """The kernels, if they can work on ``x`` and others."""
    # Within another vmap these are no tensors of memory.
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return None if any(wrapped(one) for one in (x, *others) if one is not None) else suitable(x)
