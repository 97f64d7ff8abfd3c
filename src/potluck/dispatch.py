"""Seeing every operation of PyTorch that is done."""

from __future__ import annotations

import sys
from typing import Any

from torch._compile import _disable_dynamo
from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's modes are not typed
    """A mode of PyTorch's that loads nothing to be used: by default its compiler is loaded, to keep it out.

    Where it is loaded already, because a network is compiled, it is kept out as usual.
    """

    _kept_out = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __enter__(self) -> Any:
        """Begin to see operations."""
        kind = type(self)
        if "torch._dynamo" in sys.modules and not vars(kind).get("_kept_out", False):
            kind.__torch_dispatch__ = _disable_dynamo(kind.__torch_dispatch__)  # type: ignore[method-assign]
            kind._kept_out = True
        return super().__enter__()  # type: ignore[no-untyped-call]  # PyTorch's own
