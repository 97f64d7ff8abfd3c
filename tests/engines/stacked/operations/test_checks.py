"""What is done with kernels that are right, wrong, or do not run."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext

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


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A device for which kernels are compared by other threads."""
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    return torch.device("cuda")


def test_kernels_are_compared_side_by_side(gpu: torch.device) -> None:
    together = threading.Barrier(2, timeout=60)

    def check(*_: object) -> bool:
        together.wait()
        return True

    assert checks.passes(check, "b", ("a", "b"), gpu)


def test_where_memory_ended_it_is_tried_again(gpu: torch.device) -> None:
    tries = []

    def check(what: str, *_: object) -> bool:
        tries.append(what)
        if tries.count(what) <= 2 * (what == "b"):
            raise torch.cuda.OutOfMemoryError("full")
        return True

    assert checks.passes(check, "a", ("a", "b"), gpu)
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"no memory left to try a kernel \(b\)"):
        checks.passes(check, "b", ("a", "b"), gpu)
    assert checks.passes(check, "b", ("a", "b"), gpu)
    assert tries.count("a") == 1 and tries.count("b") == 3


def test_nothing_is_compared_while_a_step_is_recorded(gpu: torch.device) -> None:
    begun, done = threading.Event(), []

    def check(what: str, *_: object) -> bool:
        begun.set()
        time.sleep(0.2)
        done.append(what)
        return True

    first = threading.Thread(target=checks.passes, args=(check, "a", (), gpu))
    first.start()
    assert begun.wait(60)
    with checks.undisturbed():
        assert done == ["a"]
        with pytest.raises(RuntimeError, match="was not compared before"):
            checks.passes(check, "b", (), gpu)
        other = threading.Thread(target=checks.passes, args=(check, "c", (), gpu))
        other.start()
        time.sleep(0.3)
        assert done == ["a"]
    for thread in (first, other):
        thread.join(60)
    assert done == ["a", "c"]


def test_half_of_the_numbers_being_wrong_is_noticed() -> None:
    right = torch.arange(10.0, dtype=torch.float64)
    assert checks.agree([right.float() * 1.001], [right])
    assert not checks.agree([right, torch.where(right > 5, 0.0, right)], [right, right])
