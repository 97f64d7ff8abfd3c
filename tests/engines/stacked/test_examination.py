"""Predictions of stacked clients that are counted: when they are recorded, and when anew."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import nn

from potluck.contract import Task
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.examination import Examination
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Template

from ..made_up import MadeUp, setting

CPU = torch.device("cpu")


class Counting(Studio):
    """Counts recordings."""

    def __init__(self) -> None:
        super().__init__(CPU)
        self.made = 0

    def record(self, name: Hashable, step: Callable[[], None]) -> Callable[[], None] | None:
        self.made += 1
        return step


def test_it_is_recorded_at_its_second_use_and_again_when_what_was_received_moves() -> None:
    given, studio = setting(MadeUp()), Counting()
    shape, classes = given.task.shape, given.task.classes
    head = nn.Linear(torch.Size(shape).numel(), classes, dtype=given.dtype)
    modules = {"body": nn.Flatten(), "head": head}
    stack = Stack(Template(modules, Task(shape, classes)), 2, CPU)
    pool = Pool(torch.randn(5, *shape), torch.arange(5) % classes, torch.arange(5).expand(2, 5))
    examination = Examination(stack, given, pool, slice(0, 2), 5, studio)
    weight = torch.ones(2, 5, dtype=given.dtype)
    weight[1, 3:] = 0
    seen = []
    for uses in range(1, 4):
        counts = examination.counts(pool.rows, weight)
        assert counts.sum((1, 2)).tolist() == [5, 3] and studio.made == (uses > 1)
        seen.append(counts.clone())
    assert torch.equal(seen[0], seen[-1])
    stack.received = dict(stack.received)
    examination.counts(pool.rows, weight)
    assert studio.made == 1
    examination.counts(pool.rows, weight)
    assert studio.made == 2
