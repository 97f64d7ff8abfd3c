"""Seeing every operation of PyTorch that is done."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's modes are not typed
    """A mode of PyTorch's that costs nothing before it is used: by default its compiler is loaded, to keep it out."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
