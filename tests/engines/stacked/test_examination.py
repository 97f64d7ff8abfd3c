"""What is found in batches of stacked clients: when it is recorded, and when anew."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from potluck.engines import Setting
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.examination import Examination
from potluck.engines.stacked.reading import Reading, collect_batch, count_batch
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Template

from ..made_up import Mean, setting

CPU = torch.device("cpu")


class Counting(Studio):
    """Counts recordings."""

    def __init__(self) -> None:
        super().__init__(CPU)
        self.made = 0

    def record(self, name: Hashable, step: Callable[[], None]) -> Callable[[], None] | None:
        self.made += 1
        return step


def two(given: Setting) -> tuple[Stack, Pool]:
    """Clients, with the same five samples."""
    shape, classes = given.task.shape, given.task.classes
    head = nn.Linear(torch.Size(shape).numel(), classes, dtype=given.dtype)
    stack = Stack(Template({"body": nn.Flatten(), "head": head}, given.task), 2, CPU)
    return stack, Pool(torch.randn(5, *shape), torch.arange(5) % classes, torch.arange(5).expand(2, 5))


def test_what_is_found_may_have_another_shape_when_something_else_was_received() -> None:
    given = setting(Mean())
    stack, pool = two(given)
    batch = pool.rows, pool.rows, torch.ones(2, 5, dtype=given.dtype)

    def told(*given: Any) -> dict[str, Tensor]:
        return {"told": 2 * given[3]["table"]}

    examination = Examination(told, stack, given, pool, slice(0, 2), 5, Counting())
    for width in (3, 3, 4, 4):
        if not stack.received or stack.received["table"].shape[1] != width:
            stack.received = {"table": torch.arange(2 * width).view(2, width)}
        assert torch.equal(examination.of(*batch)["told"], 2 * stack.received["table"])


@pytest.mark.parametrize("reading", [count_batch, collect_batch])
def test_it_is_recorded_at_its_second_use_and_again_when_what_was_received_moves(reading: Reading) -> None:
    given, studio = setting(Mean()), Counting()
    stack, pool = two(given)
    examination = Examination(reading, stack, given, pool, slice(0, 2), 5, studio)
    weight = torch.ones(2, 5, dtype=given.dtype)
    weight[1, 3:] = 0
    batch = pool.rows, pool.rows, weight
    seen = []
    for uses in range(1, 4):
        found = examination.of(*batch)
        if reading is count_batch:
            assert found["counts"].shape == (2, 3, given.task.classes)
            assert found["counts"][:, 1:].sum(2).tolist() == [[5, 5], [3, 3]]
        else:
            assert found["count"].tolist() == [5, 3]
            expected = torch.stack([pool.x.to(given.dtype).flatten(1)[:count].sum(0) for count in (5, 3)])
            torch.testing.assert_close(found["sum"], expected)
        assert studio.made == (uses > 1)
        seen.append(found)
    assert all(one[name] is tensor for one in seen for name, tensor in seen[0].items())  # where a recording leaves it
    stack.received = dict(stack.received)
    examination.of(*batch)
    assert studio.made == 1
    examination.of(*batch)
    assert studio.made == 2
