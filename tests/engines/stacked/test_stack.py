"""Weights, data and states of many clients in one tensor each."""

from __future__ import annotations

import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from potluck.algorithms import State
from potluck.contract import Networks, Task
from potluck.data.examples import Examples
from potluck.engines.stacked.cache import Cache
from potluck.engines.stacked.data import Pools
from potluck.engines.stacked.recycled import Recycler
from potluck.engines.stacked.stack import Stack, alike
from potluck.engines.stacked.teams import cut, halved, in_powers, power_above
from potluck.engines.stacked.template import Template
from potluck.errors import ModelError

CPU = torch.device("cpu")


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(3, 3, bias=False)
        self.two = nn.Linear(3, 3)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.two(self.one(x).tanh())
        return out


def state(key: int, net: nn.Module) -> State:
    torch.manual_seed(key)
    return {path: torch.randn_like(tensor) for path, tensor in Networks({"body": net}).state().items()}


# ---- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("portion", [1, 1 << 30])
def test_what_is_loaded_comes_back(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.engines.stacked.stack._PORTION", portion)
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2, bias=False))
    stack = Stack(Template({"body": net}, Task((3,), 2)), 4, CPU)
    states = [state(key, net) for key in range(3)]
    stack.load(states)
    for given, back in zip(states, stack.states(3), strict=True):
        assert list(given) == list(back)
        assert all(torch.equal(given[path], back[path]) and given[path] is not back[path] for path in given)
    assert all(torch.equal(tensor[3], tensor[0]) for tensor in stack.weights.values())
    own = stack.row(1)
    stack.load(states[:1])
    assert all(torch.equal(tensor, states[1][path]) for path, tensor in stack.template.layout.views(own).items())
    stack.load([states[2], own, states[0]])  # rows that are on the device already go among states of the CPU
    for client, number in enumerate((2, 1, 0, 2)):
        assert all(torch.equal(stack.weights[path][client], states[number][path]) for path in states[0])


def test_a_weight_with_two_names_is_one_weight() -> None:
    template = Template({"body": Tied()}, Task((3,), 2))
    assert list(template.first) == ["body.one.weight", "body.two.weight", "body.two.bias"]
    assert list(template.own) == ["body.one.weight", "body.two.bias"]
    assert template.parameters(("body",)) == ["body.one.weight", "body.two.bias"]
    held = Networks({"body": Tied()}).state()
    stack = Stack(template, 1, CPU)
    stack.load([held])
    (back,) = stack.states(1)
    assert list(back) == list(held) and torch.equal(back["body.two.weight"], held["body.one.weight"])
    assert back["body.two.weight"] is not back["body.one.weight"]
    x = torch.randn(2, 3)
    net = Tied()
    Networks({"body": net}).load(held)
    assert torch.allclose(template.networks(back | {"body.two.weight": back["body.one.weight"]}).body(x), net(x))


def test_what_does_not_fit_is_refused() -> None:
    stack = Stack(Template({"body": nn.Linear(3, 2)}, Task((3,), 2)), 2, CPU)
    good = state(0, nn.Linear(3, 2))
    with pytest.raises(ModelError, match=r"'body\.bias' of shape \(5,\) does not fit"):
        stack.load([good, {**good, "body.bias": torch.zeros(5)}])
    with pytest.raises(ModelError, match=r"'body\.more'"):
        stack.receive([{"body.more": torch.zeros(1)}], ("body",))


def test_what_all_receive_is_there_once_and_shared_weights_are_loaded() -> None:
    stack = Stack(Template({"body": nn.Linear(3, 2)}, Task((3,), 2)), 3, CPU)
    stack.load([state(0, nn.Linear(3, 2))])
    bias = torch.ones(2)
    arrived = [{"body.bias": bias, "mask": torch.full((2,), float(number))} for number in range(2)]
    stack.receive(arrived, ("body",))
    assert stack.weights["body.bias"].tolist() == [[1, 1]] * 3
    assert stack.received["mask"].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert stack.received["body.bias"].stride(0) == 0
    place = stack.received
    stack.receive([{name: tensor + 1 for name, tensor in arrived[0].items()}] * 3, ())
    assert stack.received is not place  # now the mask is one for all
    place = stack.received
    stack.receive([{name: tensor + 2 for name, tensor in arrived[0].items()}] * 3, ())
    assert stack.received is place
    assert stack.received["mask"].tolist() == [[2, 2]] * 3
    assert stack.weights["body.bias"].tolist() == [[1, 1]] * 3


def test_clients_that_receive_unlike_tensors_cannot_be_stacked() -> None:
    one = {"a": torch.zeros(2)}
    assert alike([one, {"a": torch.ones(2)}]) and alike([{}])
    for other in ({}, {"a": torch.zeros(3)}, {"a": torch.zeros(2).double()}, {"b": torch.zeros(2)}):
        assert not alike([one, other])


# ---- data -----------------------------------------------------------------------------------------------------------


def test_clients_of_one_source_are_not_copied() -> None:
    source = torch.arange(12.0).view(6, 2), torch.arange(6)
    rows = [torch.tensor([4, 1]), torch.tensor([0]), torch.tensor([], dtype=torch.int64)]
    pool = Pools().of("train", [Examples(*source, each) for each in rows])
    assert pool.x is source[0] and pool.y is source[1]
    assert pool.rows[0].tolist() == [4, 1] and int(pool.rows[1, 0]) == 0


def test_clients_with_sources_of_their_own_are_joined_and_stay_in_place() -> None:
    data = [Examples(torch.full((count, 2), float(count)), torch.full((count,), count)) for count in (3, 1, 2)]
    none = Examples(torch.empty(0), torch.empty(0, dtype=torch.int64))
    pools = Pools()
    pool = pools.of("test", [data[0], none, data[1].only(torch.tensor([0])), data[2]])
    for place, examples in ((0, data[0]), (2, data[1]), (3, data[2])):
        own = pool.rows[place, : len(examples)]
        assert torch.equal(pool.x[own], examples.x) and torch.equal(pool.y[own], examples.y)
    assert 0 <= int(pool.rows[1, 0]) < 6
    again = pools.of("test", [data[2], data[1]])
    assert again.x is pool.x and again.y is pool.y
    assert torch.equal(again.x[again.rows[0]], data[2].x)
    larger = Examples(torch.zeros(9, 2), torch.zeros(9, dtype=torch.int64))
    assert pools.of("test", [larger, data[0]]).x is not pool.x


def test_a_pool_is_made_once_for_the_same_clients() -> None:
    data = [Examples(torch.full((count, 2), float(count)), torch.full((count,), count)) for count in (3, 4)]
    pools = Pools()
    pool = pools.of("train", data)
    assert pools.of("train", list(data)) is pool
    assert pools.of("test", data) is not pool
    assert pools.of("train", data[::-1]) is not pool
    assert torch.equal(pools.of("train", data).rows, pool.rows)


def test_clients_one_by_one_with_sources_of_their_own_stay_in_place() -> None:
    data = [Examples(torch.full((count, 2), float(count)), torch.full((count,), count)) for count in (3, 4, 2)]
    pools = Pools()
    first, second, third = (pools.of("train", [one]) for one in data)
    assert first.x is data[0].whole_x and second.x is third.x and third.x is not data[2].whole_x
    assert torch.equal(third.x[third.rows[0]], data[2].x) and torch.equal(third.y[third.rows[0]], data[2].y)
    assert pools.of("train", data[:1]).x is third.x


# ---- states on the device -------------------------------------------------------------------------------------------


def test_only_the_very_state_that_a_client_holds_is_taken_from_the_device() -> None:
    cache = Cache(limit=1000)
    held, copy = {"a": torch.ones(3)}, torch.ones(3)
    cache.put(4, held, copy)
    assert cache.get(4, held) is copy
    assert cache.get(4, dict(held)) is copy  # the tensors count
    assert cache.get(4, {"a": torch.ones(3)}) is None
    assert cache.get(4, {}) is None and cache.get(5, held) is None
    held["a"].add_(1)
    assert cache.get(4, held) is None


def test_the_cache_forgets_who_was_used_least_lately_and_keeps_no_state_alive() -> None:
    cache = Cache(limit=3 * 40)
    states = [{"a": torch.zeros(10)} for _ in range(4)]
    for number in range(3):
        cache.put(number, states[number], torch.zeros(10))
    assert cache.get(0, states[0]) is not None
    cache.put(3, states[3], torch.zeros(10))
    assert [cache.get(number, states[number]) is not None for number in range(4)] == [True, False, True, True]
    cache.put(2, states[2], torch.zeros(100))  # too large to be kept
    assert cache.get(2, states[2]) is None
    gone = torch.zeros(10)
    cache.put(0, {"a": gone}, torch.zeros(10))
    known = weakref.ref(gone)
    del gone
    assert known() is None
    cache.clear()
    assert cache.get(3, states[3]) is None
    assert Cache(0).enabled is False


# ---- numbers of clients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [*range(1, 70), 1000])
def test_numbers_of_clients(count: int) -> None:
    room = power_above(count)
    assert count <= room < 2 * count
    assert count <= halved(count, room) <= room
    for most in (1, 3, 16):
        powers = in_powers(count, most)
        assert [number for part in powers for number in range(part.start, part.stop)] == list(range(count))
        assert all(power_above(part.stop - part.start) == part.stop - part.start <= most for part in powers)
        parts = cut(count, most)
        assert [number for part in parts for number in range(part.start, part.stop)] == list(range(count))
        assert max(part.stop - part.start for part in parts) <= most


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_memory_is_used_again_once_nothing_refers_to_it() -> None:
    recycler = Recycler(100)
    first, second = (recycler.copied(torch.full((40,), value, dtype=torch.uint8)) for value in (1, 2))
    place, view = first.data_ptr(), first[:8].view(torch.float32)
    del first
    third = recycler.copied(torch.full((40,), 3, dtype=torch.uint8))
    assert third.data_ptr() != place and view.view(torch.uint8).eq(1).all()  # a view is still there
    del view
    again = recycler.copied(torch.full((40,), 4, dtype=torch.uint8))
    assert again.data_ptr() == place and again.eq(4).all()
    assert second.eq(2).all() and third.eq(3).all()


@pytest.mark.parametrize("size", [0, 1, 3 << 20])
def test_rows_of_any_size_are_copied(size: int) -> None:
    row = torch.arange(size, dtype=torch.int64).to(torch.uint8)
    copy = Recycler(0).copied(row)
    assert torch.equal(copy, row) and (not size or copy.data_ptr() != row.data_ptr())
    copy.add_(1)  # whoever has it may write to it


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what a process holds")
def test_memory_of_large_rows_goes_back_to_the_system() -> None:
    def held() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    recycler, row = Recycler(0), torch.ones((4 << 20) + 12345, dtype=torch.uint8)
    with ThreadPoolExecutor(4) as threads:
        for _ in range(2):  # C's allocator learns from the first ones not to give such memory back
            rows = list(threads.map(recycler.copied, [row] * 40))
            full = held()
            del rows[::2]
            assert full - held() > 0.75 * len(rows) * row.nbytes


def test_no_more_memory_is_kept_than_the_limit() -> None:
    recycler = Recycler(100)
    rows = [recycler.copied(torch.zeros(40, dtype=torch.uint8)) for _ in range(4)]
    rows.clear()
    assert sum(len(spaces) for spaces in recycler._unused.values()) == 2 and recycler._bytes == 80
    kept = recycler.copied(torch.zeros(40, dtype=torch.uint8))
    assert recycler._bytes == 40 and len(kept) == 40
