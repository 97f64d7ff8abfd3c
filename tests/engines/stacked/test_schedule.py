"""Which samples meet in which step: the batches of loop, for any clients, padded with samples that do not count."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from potluck import draws
from potluck.contract import Phase
from potluck.data.examples import Examples
from potluck.data.transform import Transform
from potluck.engines.batches import Inputs, epoch_batches, sizes, view_key
from potluck.engines.stacked.schedule import Plan, Schedule, make_schedule, stable_width
from potluck.engines.stacked.timetable import planned_together

from ..made_up import cross_entropy

CPU = torch.device("cpu")
PLANS = st.builds(
    lambda samples, size, epochs, drop: Plan(
        [draws.fold(number, "client") for number in range(len(samples))],
        samples,
        [sizes(count, size, drop) for count in samples],
        epochs,
        size,
    ),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.integers(1, 9),
    st.integers(1, 3),
    st.booleans(),
)


def schedule_of(plan: Plan, views: int = 2) -> tuple[Schedule, Tensor]:
    rows = 1000 * torch.arange(len(plan.keys)).unsqueeze(1) + torch.arange(max(plan.samples))
    return make_schedule(plan, views, CPU).located(rows), rows


@settings(max_examples=60)
@given(PLANS)
def test_every_client_sees_the_batches_of_loop_in_their_order(plan: Plan) -> None:
    schedule, _ = schedule_of(plan)
    inputs = Inputs(Transform(), CPU, torch.float64)
    phase = Phase(train=("head",), loss=cross_entropy)
    for client, (key, count, cut) in enumerate(zip(plan.keys, plan.samples, plan.batches, strict=True)):
        data = Examples(torch.arange(count).double().unsqueeze(1), torch.zeros(count, dtype=torch.int64))
        step = 0
        for epoch in range(plan.epochs):
            for batch in epoch_batches(data, cut, key, epoch, phase, inputs):
                size = len(batch.y)
                assert int(schedule.sizes[step, client]) == size
                assert torch.equal(schedule.index[step, client, :size], batch.index)
                assert torch.equal(schedule.keys[step, client, :size], batch.key)
                for view in range(2):
                    keys = draws.spread(view_key(key, epoch, view), batch.index)
                    assert torch.equal(schedule.views[view, step, client, :size], keys)
                step += 1
        assert step == plan.steps[client]
        assert not schedule.sizes[step:, client].any()


@settings(max_examples=60)
@given(PLANS)
def test_padding_is_a_sample_of_the_batch_itself(plan: Plan) -> None:
    schedule, rows = schedule_of(plan)
    assert schedule.index.shape == (max(plan.steps), len(plan.keys), plan.width)
    assert schedule.rows is not None
    assert torch.equal(schedule.rows, torch.stack([rows[k][schedule.index[:, k]] for k in range(len(rows))], 1))
    padding = torch.arange(plan.width) >= schedule.sizes.unsqueeze(2)
    for table in (schedule.index, schedule.rows, schedule.keys, *schedule.views):
        assert torch.equal(table[padding], table[:, :, :1].expand_as(table)[padding])


@given(PLANS, st.sampled_from([lambda count: count, lambda count: -(-count // 2) * 2, lambda _: 8]))
def test_segments_follow_one_another_and_leave_nobody_out(plan: Plan, rounded: object) -> None:
    assert callable(rounded)
    steps, at = plan.steps, 0
    counts = []
    for start, stop, count in plan.segments(rounded):
        assert start == at < stop
        assert all(number < count for number, end in enumerate(steps) if end > start)
        counts.append(count)
        at = stop
    assert at == max(steps)
    assert counts == sorted(set(counts), reverse=True)


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_widths_are_few_and_large_enough(largest: int, batch_size: int) -> None:
    largest = min(largest, batch_size)
    width = stable_width(largest, batch_size)
    assert largest <= width <= batch_size
    assert width % 32 == 0 or width == batch_size


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=3), min_size=1, max_size=4), st.integers(1, 9))
def test_clients_planned_together_do_what_they_do_alone(teams: list[list[int]], size: int) -> None:
    plans = [
        Plan([draws.fold(team, "client", place) for place in range(len(samples))], samples,
             [sizes(count, size, drop_single=False) for count in samples], 2, size)
        for team, samples in enumerate(teams)
    ]  # fmt: skip
    whole, first = make_schedule(Plan.joined(plans), 1, CPU), 0
    for plan in plans:
        clients = slice(first, first + len(plan.keys))
        part, alone = whole.part(clients, max(plan.steps), plan.width), make_schedule(plan, 1, CPU)
        for name in ("index", "keys", "views", "sizes"):
            assert torch.equal(getattr(part, name), getattr(alone, name)), name
        first = clients.stop


def test_no_more_is_planned_together_than_memory_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {name: Plan([0], [8], [[4, 4]], epochs=1, batch_size=4) for name in "abcde"}
    assert [list(group) for group in planned_together(plans)] == [["a", "b", "c", "d", "e"]]
    monkeypatch.setattr("potluck.engines.stacked.timetable._MOST", 16)
    assert [list(group) for group in planned_together(plans)] == [["a", "b"], ["c", "d"], ["e"]]
    monkeypatch.setattr("potluck.engines.stacked.timetable._MOST", 1)
    assert [list(group) for group in planned_together(plans)] == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_a_schedule_taken_over_leaves_the_others_idle() -> None:
    plan = Plan([1, 2], [6, 3], [[2, 2, 2], [2, 1]], 1, 2)
    whole, _ = schedule_of(plan, views=1)
    part = Schedule.empty(4, 3, plan.width, 1, torch.zeros((), dtype=torch.int64))
    for table in part._tables():
        table.fill_(7)
    part.take(whole, range(1, 3))
    assert part.sizes[:2].tolist() == [[2, 1, 0], [2, 0, 0]]
    assert not any(table[:, 2:].any() for table in part._tables())
    index, rows, keys, sizes_, views = part.at(torch.tensor([1]))
    for mine, others in zip((index, rows, keys, sizes_), whole._tables(), strict=True):
        assert torch.equal(mine[:2], others[2])
    assert torch.equal(views[:, :2], whole.views[:, 2])
