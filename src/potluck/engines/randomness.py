"""Dropout that draws from counters, so that every engine drops the same units; all other randomness is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from potluck import draws
from potluck.dispatch import Watching
from potluck.errors import ModelError

_DROPOUT = {F.dropout: None, F.dropout1d: 2, F.dropout2d: 2, F.dropout3d: 2}
"""How many leading dimensions are dropped as a whole: ``None`` for single units, 2 for channels of a sample."""

_UNSEEDED = {
    F.alpha_dropout, F.feature_alpha_dropout, F.rrelu, torch.bernoulli, torch.multinomial, torch.normal,
    torch.rand, torch.rand_like, torch.randint, torch.randint_like, torch.randn, torch.randn_like, torch.randperm,
}  # fmt: skip


class CounterDropout(TorchFunctionMode):
    """While active, dropout inside networks is a pure function of one key per sample.

    Each call of a dropout layer within the step is another draw. A network that is called with several times the
    samples of the batch (two inputs joined into one) draws anew for each repetition.
    """

    def __init__(self, keys: Tensor) -> None:
        super().__init__()
        self.keys = keys
        self.calls = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Stand in for dropout; refuse other sources of randomness, which no engine could repeat."""
        kwargs = kwargs or {}
        if func in _DROPOUT:
            return self._drop(_DROPOUT[func], *args, **kwargs)
        if func in _UNSEEDED:
            raise _unrepeatable(getattr(func, "__name__", str(func)))
        return func(*args, **kwargs)

    def _drop(
        self, whole: int | None, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return x
        if p >= 1:
            return x * 0
        self.calls += 1
        repeats = x.shape[0] // self.keys.shape[0]
        if repeats * self.keys.shape[0] != x.shape[0]:
            raise ModelError(
                f"dropout saw {x.shape[0]} samples in a batch of {self.keys.shape[0]}: keep samples in rows."
            )
        parts = [draws.spread(self.keys, self.calls << 20 | part) for part in range(repeats)]
        shape = x.shape[1:] if whole is None else x.shape[1:whole]
        units = torch.arange(shape.numel(), device=x.device)
        kept = draws.uniform(torch.cat(parts)[:, None], units) >= p
        kept = kept.reshape(x.shape[0], *shape, *(1 for _ in x.shape[1 + len(shape) :]))
        return x * kept.to(x.dtype) / (1 - p)


class RefuseUnseeded(Watching):  # type: ignore[no-untyped-call]  # PyTorch's own
    """While active, any operation that draws from PyTorch's own generator is refused.

    It sees what :class:`CounterDropout` cannot: draws in place, and those within PyTorch's own functions, such as the
    dropout of attention weights. It slows every operation down, so it is for one trial step, not for training.
    """

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, unless it draws."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            names = [argument.name for argument in func._schema.arguments]
            # Attention is marked as random whether it drops anything or not.
            attention = "dropout_p" in names
            if not attention or {**dict(zip(names, args, strict=False)), **kwargs}.get("dropout_p", 0) > 0:
                raise _unrepeatable(str(func))
        return func(*args, **kwargs)


def _unrepeatable(function: str) -> ModelError:
    return ModelError(
        f"a network draws random numbers with {function}, which a run cannot repeat: use dropout layers "
        "(nn.Dropout, F.dropout), or draw from potluck.draws."
    )
