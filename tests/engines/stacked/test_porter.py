"""What clients hold is brought to the CPU while everything else goes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late

import pytest
import torch

from potluck.engines.stacked.porter import Porter
from potluck.engines.stacked.transfer import Arriving

ROWS = torch.arange(12, dtype=torch.uint8).view(3, 4)


def test_rows_come_as_copies_in_their_order() -> None:
    porter = Porter(limit=1000, unused=1000)
    rows = ROWS.clone()
    found = [row.result() for row in porter.brought(rows)]
    rows.zero_()
    assert torch.equal(torch.stack(found), ROWS)


def test_no_more_is_on_its_way_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    let = threading.Event()
    monkeypatch.setattr(Arriving, "wait", lambda self: (let.wait(10), self.tensors)[1])
    porter = Porter(limit=20, unused=0)
    first = porter.brought(ROWS)  # 12 bytes
    with ThreadPoolExecutor(1) as another:
        second = another.submit(porter.brought, ROWS)
        with pytest.raises(Late):
            second.result(timeout=0.1)
        assert not any(row.done() for row in first)
        let.set()
        assert all(torch.equal(row.result(), own) for row, own in zip(second.result(10), ROWS, strict=True))
    assert all(torch.equal(row.result(10), own) for row, own in zip(first, ROWS, strict=True))


def test_what_is_larger_than_allowed_comes_by_itself() -> None:
    porter = Porter(limit=1, unused=0)
    for _ in range(3):
        assert [int(row.result().sum()) for row in porter.brought(ROWS)] == [6, 22, 38]


def test_what_fails_is_not_on_its_way_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    porter = Porter(limit=1, unused=0)

    def fail(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(porter._recycler, "copied", fail)
    with pytest.raises(MemoryError):
        porter.brought(ROWS)[0].result()
    monkeypatch.undo()
    monkeypatch.setattr("potluck.engines.stacked.porter.fetching", fail)
    with pytest.raises(MemoryError):
        porter.brought(ROWS)
    monkeypatch.undo()
    assert len(porter.brought(ROWS)) == 3
