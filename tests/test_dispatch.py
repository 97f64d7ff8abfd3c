"""Seeing operations, without a compiler and beside one."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import torch
from torch import nn

from potluck.dispatch import Watching


def test_a_network_that_is_compiled_is_seen_and_the_compiler_kept_out() -> None:
    class Counter(Watching):  # type: ignore[no-untyped-call]  # PyTorch's own
        """Counts operations."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]  # PyTorch's own
            self.seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
            self.seen += 1
            return func(*args, **(kwargs or {}))

    import_module("torch._dynamo")
    net = nn.Linear(3, 2)
    compiled = torch.compile(net, backend="eager")
    plain = Counter.__torch_dispatch__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in range(1, 15):  # more than a compiler would try again
            with Counter() as counter:
                assert torch.equal(compiled(torch.ones(size, 3)), net(torch.ones(size, 3)))
            assert counter.seen > 1
    assert Counter.__torch_dispatch__ is not plain and not vars(Watching).get("_kept_out")
    kept_out = Counter.__torch_dispatch__
    with Counter():
        assert Counter.__torch_dispatch__ is kept_out  # once is enough
