"""In which numbers clients compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch

Name = Literal["auto", "float32", "tf32", "bf16", "float64"]


@dataclass(frozen=True)
class Precision:
    """In which numbers clients compute. Weights, and all that travels, are float32, or float64 throughout.

    ``tf32`` lets a GPU round the factors of products to 10 bits; on a CPU it is float32. ``bf16`` computes losses
    and predictions, where PyTorch's autocast holds it to be safe, in bfloat16; what is collected is computed as in
    ``tf32``.

    >>> Precision.of("auto", torch.device("cpu")).name, Precision.of("auto", torch.device("cuda")).name
    ('float32', 'tf32')
    """

    name: str
    device: torch.device

    @classmethod
    def of(cls, name: Name, device: torch.device) -> Precision:
        """The precision called ``name``; ``auto`` is tf32 on a GPU and float32 on a CPU."""
        if name == "auto":
            name = "tf32" if device.type == "cuda" else "float32"
        return cls(name, device)

    @property
    def dtype(self) -> torch.dtype:
        """The type of weights and inputs."""
        return torch.float64 if self.name == "float64" else torch.float32

    @contextmanager
    def working(self) -> Iterator[None]:
        """While active, a GPU rounds factors, or does not, as this precision says."""
        if self.device.type != "cuda":
            yield
            return
        # PyTorch's own default differs between matrix products and convolutions.
        switches: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn]
        before = [switch.allow_tf32 for switch in switches]
        for switch in switches:
            switch.allow_tf32 = self.name in ("tf32", "bf16")
        try:
            yield
        finally:
            for switch, allowed in zip(switches, before, strict=True):
                switch.allow_tf32 = allowed

    def autocast(self) -> Any:
        """While active, a loss or a prediction is computed in this precision."""
        if self.name != "bf16":
            return nullcontext()
        # Without its cache of weights, which would outlive the step that they belong to.
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)
