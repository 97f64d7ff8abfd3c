"""Gradients of PyTorch's own operations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def pulled_back(operation: Callable[[Tensor], Tensor], x: Tensor, slope: Tensor) -> Tensor:
    """The gradient by ``x``, given the slopes by what the operation makes of it.

    >>> pulled_back(torch.square, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    with torch.enable_grad():
        again = x.detach().requires_grad_()
        # That of a sum, which is the same: where it is given slopes, PyTorch loads its symbolic algebra.
        (found,) = torch.autograd.grad((operation(again) * slope).sum(), again)
    return found
