"""Rows of memory that hold a client each."""

from __future__ import annotations

import torch

from potluck.engines.stacked.layout import Layout

CPU = torch.device("cpu")
TENSORS = {
    "a": torch.zeros(3, 2), "b": torch.zeros(5), "count": torch.zeros((), dtype=torch.int64), "c": torch.zeros(()),
    "d": torch.zeros(2, dtype=torch.float64), "none": torch.zeros(0, 4), "e": torch.zeros(4),
}  # fmt: skip


def test_every_tensor_has_its_own_place_in_every_row() -> None:
    layout = Layout(TENSORS)
    rows = layout.rows(3, CPU)
    views = layout.views(rows)
    for number, (path, view) in enumerate(views.items()):
        assert view.shape == (3, *TENSORS[path].shape) and view.dtype == TENSORS[path].dtype
        view.copy_(torch.arange(3).view(-1, *(1 for _ in view.shape[1:])) * 100 + number)
    for number, (path, view) in enumerate(views.items()):
        for row in range(3):
            assert bool((view[row] == 100 * row + number).all())
            assert torch.equal(layout.views(rows[row])[path], view[row])
    assert all(view.data_ptr() % 16 == 0 for view in views.values())


def test_what_lies_one_behind_the_other_is_one_run() -> None:
    layout = Layout(TENSORS)
    runs = layout.runs(["b", "a", "c", "d", "e"])
    assert [list(run.fields) for run in runs] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert [list(run.fields) for run in layout.runs(["a", "b"], apart=True)] == [["a"], ["b"]]
    rows = layout.rows(2, CPU)
    given = {path: torch.randn(2, *TENSORS[path].shape) for path in ("a", "b")}
    for path, tensor in given.items():
        layout.views(rows)[path].copy_(tensor)
    assert torch.equal(runs[0].of(rows), runs[0].joined(given))
    runs[0].of(rows).neg_()
    assert all(torch.equal(layout.views(rows)[path], -tensor) for path, tensor in given.items())


def test_what_is_in_between_is_zero_when_it_is_tidied() -> None:
    layout = Layout(TENSORS)
    rows = layout.rows(2, CPU).fill_(255)
    layout.tidy(rows)
    for view in layout.views(rows).values():
        view.zero_()
    assert int(rows.sum()) == 0
