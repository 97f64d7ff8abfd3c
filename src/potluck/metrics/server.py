"""What the server computes, in floating-point operations.

The rule: what clients' operations count by (:mod:`potluck.metrics.counter`), and one operation for each number of what
is computed element by element or summed, since a mean over clients is nothing else. Copies, selections by a mask or an
index, signs, comparisons that give true or false, sorting and whole numbers count nothing. What limits or rounds each
number (``relu``, ``clamp``, ``maximum``, ``round``) is computed element by element, and counts one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from functools import cache, wraps
from typing import Any, ParamSpec, Self, TypeVar

import torch
from torch import Tensor

from potluck.metrics.counter import Counter
from potluck.settings import Settings

_P = ParamSpec("_P")
_R = TypeVar("_R")

_aten = torch.ops.aten
_ONLY_MOVE = frozenset({
    _aten.clone, _aten.where, _aten.masked_fill, _aten.positive, _aten.nan_to_num, _aten.abs, _aten.abs_, _aten.neg,
    _aten.neg_,
})  # fmt: skip
"""What PyTorch calls pointwise, and selects numbers or changes their signs."""
_OF_PAIRS = frozenset({_aten._cdist_forward, _aten._cdist_backward})
_SCALED = frozenset({_aten.add, _aten.add_, _aten.sub, _aten.sub_, _aten.rsub})
_ACTIVE: ContextVar[ServerCounter | None] = ContextVar("_ACTIVE", default=None)


class ServerCounter(Counter):
    """Counts what the server does while it is entered; it may be entered again.

    >>> with ServerCounter() as counter:
    ...     _ = (torch.ones(3, 4) * 0.5).mean(0), torch.ones(3, 4) > 0
    >>> counter.total == 12 + 12
    True
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Any, int] = {}
        self._outer: list[Token[ServerCounter | None]] = []

    def __enter__(self) -> Self:
        """Begin to count."""
        self._outer.append(_ACTIVE.set(self))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop counting."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]  # PyTorch's own
        _ACTIVE.reset(self._outer.pop())

    def cost(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
        """What one operation of PyTorch's costs."""
        return super().cost(func, args, kwargs, result) or _elementwise(func, args, kwargs, result)

    def once(self, what: Any, do: Callable[[], _R]) -> _R:
        """Do something that costs always the same, known as ``what``: looked at the first time alone."""
        known = self._known.get(what)
        if known is None:
            before = self.total
            result = do()
            self._known[what] = self.total - before
            return result
        self.__exit__(None, None, None)  # seeing an operation takes as long as a small one
        try:
            result = do()
        finally:
            self.__enter__()
        self.total += known
        return result


def active_counter() -> ServerCounter | None:
    """What counts the server's operations in this thread just now, if anything does."""
    return _ACTIVE.get()


def counted_once(step: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a step of the server's quick to count: a decorator for a function that is called again and again.

    Its operations may depend on the shapes and types of the tensors that it is given, on plain numbers and texts, and
    on the settings of its algorithm, but not on what is in the tensors. Then they are counted once for each of these in
    a round.

    >>> @counted_once
    ... def step(weight, rate):
    ...     return weight - rate * weight
    >>> with ServerCounter() as counter:
    ...     _ = [step(torch.ones(10), 0.1) for _ in range(1000)]
    >>> counter.total
    20000
    """

    @wraps(step)
    def counted(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        counter = active_counter()
        if counter is None:
            return step(*args, **kwargs)
        return counter.once((step, _form(args), _form(kwargs)), lambda: step(*args, **kwargs))

    return counted


def _form(value: Any) -> Any:
    """What the operations on some arguments may depend on."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.requires_grad
    if isinstance(value, Mapping):
        return tuple((name, _form(each)) for name, each in value.items())
    if isinstance(value, Settings):
        return type(value), value.model_dump_json()  # two instances of a method may differ in what they do
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(_form, value))
    return value if isinstance(value, (int, float, str)) else type(value)


def _elementwise(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    rule = _rule(func)
    if rule is None:
        return 0
    times, place = rule
    if func.overloadpacket in _SCALED and kwargs.get("alpha", 1) != 1:
        times = 2  # one part of the sum is multiplied by a number at the same time
    if func.overloadpacket in _OF_PAIRS:
        return times * int(args[place].numel() * args[place + 1].shape[-2])
    return times * _numbers(result if place is None else args[place])


@cache
def _rule(func: Any) -> tuple[int, Any] | None:
    """How many operations something costs for each number of its result, or of the argument at a place; if any."""
    kind = func.overloadpacket
    if kind in _RULES:
        return _RULES[kind]
    return (1, None) if torch.Tag.pointwise in func.tags and kind not in _ONLY_MOVE else None


def _numbers(value: Any) -> int:
    """How many floating-point numbers there are in a tensor; none in anything else."""
    return value.numel() if isinstance(value, Tensor) and value.is_floating_point() else 0


_RULES: dict[Any, tuple[int, Any]] = {
    # A maximum aside, a difference, an exponential, a sum, and a quotient or another difference; and as many back.
    **dict.fromkeys((_aten._softmax, _aten._log_softmax), (4, None)),
    **dict.fromkeys((_aten._softmax_backward_data, _aten._log_softmax_backward_data), (4, None)),
    **dict.fromkeys((_aten.lerp, _aten.lerp_), (3, None)),
    **dict.fromkeys((_aten.addcmul, _aten.addcmul_, _aten.addcdiv, _aten.addcdiv_), (2, None)),
    **dict.fromkeys((_aten.sum, _aten.nansum, _aten.mean, _aten.prod), (1, 0)),
    **dict.fromkeys((_aten.cumsum, _aten.cumprod, _aten.embedding_dense_backward), (1, 0)),
    **dict.fromkeys((_aten.linalg_vector_norm, _aten.norm), (2, 0)),
    **dict.fromkeys((_aten.var, _aten.std, _aten.var_mean, _aten.std_mean, _aten.logsumexp), (3, 0)),
    **dict.fromkeys((_aten.index_add, _aten.index_add_, _aten.scatter_add, _aten.scatter_add_), (1, 3)),
    # A difference, a product and a sum for each pair in each dimension; and as many back.
    _aten._cdist_forward: (3, 0),
    _aten._cdist_backward: (3, 1),
}
