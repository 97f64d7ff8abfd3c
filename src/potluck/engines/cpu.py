"""What networks for images do on a CPU in other ways than PyTorch's, which take it less time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from potluck.engines.convolutions import convolve
from potluck.engines.pooling import pool


class ForCPU(TorchFunctionMode):
    """While active, networks convolve and pool images that lie channels-last as a CPU does it faster."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Stand in for what there is another way for."""
        kwargs = kwargs or {}
        result = _OURS[func](*args, **kwargs) if func in _OURS else None
        return func(*args, **kwargs) if result is None else result


_OURS: dict[Callable[..., Any], Callable[..., Tensor | None]] = {
    torch.conv2d: convolve, torch.max_pool2d: pool, F.max_pool2d: pool,
}  # fmt: skip
"""What stands in for what; none of them if it gives nothing."""
