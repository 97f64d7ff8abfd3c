"""What clients hold is brought to the CPU while everything else goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import suppress

import pytest
import torch
from torch import nn

from potluck.contract import Networks, Task
from potluck.engines.stacked import porter as porter_module
from potluck.engines.stacked.porter import Porter
from potluck.engines.stacked.recycled import Recycler
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Template
from potluck.engines.stacked.transfer import Arriving

ROWS = torch.arange(12, dtype=torch.uint8).view(3, 4)


@pytest.mark.parametrize("threads", [0, 4])
def test_rows_come_as_copies_in_their_order(threads: int) -> None:
    porter = Porter(Recycler(1000), limit=1000, threads=threads)
    rows = ROWS.clone()
    found = [row.result() for row in porter.brought(rows)]
    rows.zero_()
    assert torch.equal(torch.stack(found), ROWS)


def test_no_more_is_on_its_way_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    let = threading.Event()
    monkeypatch.setattr(Arriving, "wait", lambda self: (let.wait(60), self.tensors)[1])
    porter = Porter(Recycler(0), limit=20, threads=4)
    first = porter.brought(ROWS)  # 12 bytes
    with ThreadPoolExecutor(1) as another:
        second = another.submit(porter.brought, ROWS)
        with pytest.raises(Late):
            second.result(timeout=0.1)
        assert not any(row.done() for row in first)
        let.set()
        assert all(torch.equal(row.result(), own) for row, own in zip(second.result(60), ROWS, strict=True))
    assert all(torch.equal(row.result(60), own) for row, own in zip(first, ROWS, strict=True))


@pytest.mark.parametrize("threads", [0, 4])
def test_what_is_larger_than_allowed_comes_by_itself(threads: int) -> None:
    porter = Porter(Recycler(0), limit=1, threads=threads)
    for _ in range(3):
        assert [int(row.result().sum()) for row in porter.brought(ROWS)] == [6, 22, 38]


@pytest.mark.parametrize("threads", [0, 4])
def test_what_fails_is_not_on_its_way_for_ever(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    porter = Porter(Recycler(0), limit=1, threads=threads)

    def fail(*_: object) -> None:
        raise MemoryError

    failing: list[tuple[object, str]] = [(porter._recycler, "copied"), (porter_module, "fetching")]
    failing += [(porter._threads, "submit")] if threads else []
    for where, name in failing:
        with monkeypatch.context() as patch, suppress(MemoryError):
            patch.setattr(where, name, fail)
            [row.result(60) for row in porter.brought(ROWS)]
        with porter._arrived:
            assert porter._arrived.wait_for(lambda: porter._on_the_way == 0, timeout=60)
    assert [int(row.result(60).sum()) for row in porter.brought(ROWS)] == [6, 22, 38]


def test_a_thread_that_cannot_begin_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row may be copied by another one, all the same."""
    let, begun = threading.Event(), threading.Thread.start
    monkeypatch.setattr(Arriving, "wait", lambda self: (let.wait(60), self.tensors)[1])

    def start(thread: threading.Thread) -> None:
        if thread.name.endswith("_1"):
            raise RuntimeError("can't start new thread")
        begun(thread)

    porter = Porter(Recycler(0), limit=7, threads=4)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="can't start"):
        patch.setattr(threading.Thread, "start", start)
        porter.brought(ROWS)
    let.set()
    assert [int(row.result(60).sum()) for row in porter.brought(ROWS)] == [6, 22, 38]
    with porter._arrived:
        assert porter._arrived.wait_for(lambda: porter._on_the_way == 0, timeout=60)


def test_a_process_that_is_forked_is_not_waited_for() -> None:
    """Threads are not there any more after a fork; on a CPU there is nothing to wait for."""
    net = nn.Linear(2, 2)
    stack = Stack(Template({"body": net}, Task((2,), 2)), 8, torch.device("cpu"))
    stack.load([Networks({"body": net}).state()] * 8)
    assert len(list(stack.states(8))) == 8
    child = os.fork()
    if child == 0:
        os._exit(len(list(stack.states(8))))
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended[1]) == 8
