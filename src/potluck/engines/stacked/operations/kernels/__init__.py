"""Kernels of our own, where there is a compiler for them."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor


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
        pooling,
    )

    modules: tuple[ModuleType, ...] = (augmentation, blocks, convolution, descent, entropy, linear, pooling)
    public = {name: function for module in modules for name, function in vars(module).items() if name[0] != "_"}
    return SimpleNamespace(**public)


def usable(x: Tensor) -> SimpleNamespace | None:
    """The kernels, if they can work on ``x``."""
    if not x.is_cuda or x.dtype not in (torch.float32, torch.bfloat16):
        return None
    # Within another vmap this is no tensor of memory.
    return None if torch._C._functorch.is_functorch_wrapped_tensor(x) else compiled()
