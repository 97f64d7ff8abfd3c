"""What is done with kernels that are right, wrong, or do not run."""

from __future__ import annotations

import pytest
import torch

from potluck.engines.stacked.operations import checks

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    checks.forget()


def test_a_kernel_is_compared_once_for_each_use(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def check(what: str, device: torch.device, size: int) -> bool:
        seen.append((what, device, size))
        return size > 1

    sizes = (2, 1, 2, 1)
    assert [checks.passes(check, "one", ("one", "other"), CPU, size) for size in sizes] == [True, False, True, False]
    assert seen == [("one", CPU, 2), ("one", CPU, 1)]
    checks.finish()
    assert [record.getMessage() for record in caplog.records] == [
        "a kernel of ours (one) gave wrong numbers; PyTorch's own is used instead."
    ]


def test_a_kernel_that_does_not_run_is_left_aside(caplog: pytest.LogCaptureFixture) -> None:
    def check(*_: object) -> bool:
        raise ValueError("no room\nfor this")

    assert not checks.passes(check, "one", ("one",), CPU)
    assert [record.getMessage() for record in caplog.records] == [
        "a kernel of ours (one) did not run (no room); PyTorch's own is used instead."
    ]


def test_where_memory_ended_it_is_tried_again() -> None:
    tries = []

    def check(*_: object) -> bool:
        tries.append(1)
        if len(tries) == 1:
            raise torch.cuda.OutOfMemoryError("full")
        return True

    with pytest.raises(torch.cuda.OutOfMemoryError):
        checks.passes(check, "one", ("one",), CPU)
    assert checks.passes(check, "one", ("one",), CPU)


def test_half_of_the_numbers_being_wrong_is_noticed() -> None:
    right = torch.arange(10.0, dtype=torch.float64)
    assert checks.agree([right.float() * 1.001], [right])
    assert not checks.agree([right, torch.where(right > 5, 0.0, right)], [right, right])
