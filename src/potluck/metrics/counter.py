"""Counting floating-point operations as they are done: the rule for clients, which the server's goes beyond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from potluck.dispatch import Watching


class Counter(Watching):
    """Counts matrix products, convolutions and factorisations in one thread, at 2 for each multiply-add.

    PyTorch's own counter hooks into the modules of all threads, and knows neither factorisations nor products with a
    vector.

    >>> with Counter() as counter:
    ...     _ = torch.ones(2, 3) @ torch.ones(3, 4), torch.linalg.eigh(torch.eye(10)), torch.ones(5) + 1
    >>> counter.total == 2 * 2 * 3 * 4 + 9 * 10**3
    True
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # PyTorch's own
        self.total: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.total += self.cost(func, args, kwargs, result)
        return result

    def cost(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
        """What one operation of PyTorch's costs."""
        kind = func.overloadpacket
        formula = flop_registry.get(kind)
        if formula is not None:
            return int(formula(*args, **kwargs, out_val=result))
        own = _FORMULAS.get(kind)
        return 0 if own is None else own(args)


def _shape(matrix: Tensor) -> tuple[int, int, int]:
    """How many matrices, and the longer and the shorter side of each."""
    rows, columns = matrix.shape[-2:]
    return matrix.shape[:-2].numel(), max(rows, columns), min(rows, columns)


# Golub and Van Loan, Matrix Computations (4th edition, 2013), each counted in full whatever the numbers are. Singular
# values and eigenvalues alone count as with vectors, which PyTorch computes too while its operations are watched.


def _eigenvalues(args: tuple[Any, ...]) -> int:
    """Section 8.3: of a symmetric matrix by QR steps, with vectors, 9 n^3."""
    count, _, n = _shape(args[0])
    return count * 9 * n**3


def _singular_values(args: tuple[Any, ...]) -> int:
    """Section 8.6: by Golub and Reinsch, with both thin factors, 14 m n^2 + 8 n^3."""
    count, m, n = _shape(args[0])
    return count * (14 * m * n**2 + 8 * n**3)


def _orthogonal(args: tuple[Any, ...]) -> int:
    """Section 5.2: QR by Householder, 2 n^2 (m - n / 3), and as much again for Q."""
    count, m, n = _shape(args[0])
    return count * 2 * (2 * m * n**2 - 2 * n**3 // 3)


def _cholesky(args: tuple[Any, ...]) -> int:
    """Section 4.2: n^3 / 3."""
    count, _, n = _shape(args[0])
    return count * (n**3 // 3)


def _solution(args: tuple[Any, ...]) -> int:
    """Section 3.4: 2/3 n^3 by elimination, and 2 n^2 for each right-hand side."""
    count, _, n = _shape(args[0])
    return count * (2 * n**3 // 3) + 2 * n * int(args[1].numel())


def _inverse(args: tuple[Any, ...]) -> int:
    """As the solution for n right-hand sides, of which elimination spares 2/3 n^3: 2 n^3."""
    count, _, n = _shape(args[0])
    return count * 2 * n**3


_aten = torch.ops.aten
_FORMULAS: dict[Any, Callable[[tuple[Any, ...]], int]] = {
    _aten.mv: lambda args: 2 * args[0].numel(),
    _aten.addmv: lambda args: 2 * args[1].numel(),
    _aten.dot: lambda args: 2 * args[0].numel(),
    _aten.vdot: lambda args: 2 * args[0].numel(),
    _aten._linalg_eigh: _eigenvalues,
    _aten._linalg_svd: _singular_values,
    _aten.linalg_qr: _orthogonal,
    _aten.linalg_cholesky_ex: _cholesky,
    _aten._linalg_solve_ex: _solution,
    _aten.linalg_inv_ex: _inverse,
}
