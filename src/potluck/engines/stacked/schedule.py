"""Which samples of which client meet in which step, for a whole phase, as tensors on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from potluck import draws
from potluck.engines.batches import order_key, step_key, view_key
from potluck.engines.stacked.transfer import sent

_NARROWEST = 32


def stable_width(largest: int, most: int) -> int:
    """How wide a batch is made whose largest part has so many samples: rounded up, to be the same in most rounds.

    >>> stable_width(7, 64), stable_width(400, 512), stable_width(7, 10)
    (32, 448, 10)
    """
    step = max(1 << max(largest.bit_length() - 3, 0), _NARROWEST)
    return min(-(-largest // step) * step, most)


@dataclass(frozen=True)
class Plan:
    """How clients go through a phase: what the host knows of it.

    >>> one, two = (Plan([key], [4], [[2, 2]], epochs=3, batch_size=2) for key in (1, 2))
    >>> Plan.joined([one, two]).keys, one.volume
    ([1, 2], 12)

    Attributes:
        keys: One per client, naming the seed, the round, the client and the phase.
        samples: How many samples each client has.
        batches: How an epoch of each client is cut.
        epochs: Passes over the data.
        batch_size: Samples of a full batch.
    """

    keys: Sequence[int]
    samples: Sequence[int]
    batches: Sequence[Sequence[int]]
    epochs: int
    batch_size: int

    @classmethod
    def joined(cls, plans: Sequence[Plan]) -> Plan:
        """The clients of several plans for one phase, one after another."""
        keys = [key for plan in plans for key in plan.keys]
        samples = [count for plan in plans for count in plan.samples]
        batches = [sizes for plan in plans for sizes in plan.batches]
        return cls(keys, samples, batches, plans[0].epochs, plans[0].batch_size)

    @property
    def volume(self) -> int:
        """Samples in all steps, padding included."""
        return max(self.steps, default=0) * len(self.keys) * self.width

    @property
    def steps(self) -> list[int]:
        """Steps of each client."""
        return [self.epochs * len(sizes) for sizes in self.batches]

    @property
    def width(self) -> int:
        """Samples of every client in a step, padding included."""
        return stable_width(max((size for sizes in self.batches for size in sizes), default=1), self.batch_size)

    def segments(self, rounded: Callable[[int], int]) -> Iterator[tuple[int, int, int]]:
        """Stretches of steps, from and to, that the first so many clients make, a number allowed by ``rounded``.

        Clients with the most steps come first, so that those who are done can be left out.

        >>> list(Plan([0, 0, 0], [8, 4, 4], [[4, 4], [4], [4]], epochs=3, batch_size=4).segments(lambda count: count))
        [(0, 3, 3), (3, 6, 1)]
        """
        steps = self.steps
        # Whoever is behind a client in the stack must stay as long as that one does.
        needed = [max(steps[number:]) for number in range(len(steps))]
        start = 0
        while start < max(needed, default=0):
            count = rounded(_left(needed, start))
            ends = (end for end in needed if end > start and _left(needed, end) and rounded(_left(needed, end)) < count)
            stop = min(ends, default=max(needed))
            yield start, stop, count
            start = stop


def _left(needed: Sequence[int], step: int) -> int:
    """How many clients make the step after so many."""
    return sum(end > step for end in needed)


@dataclass(frozen=True)
class Schedule:
    """Every step of a phase.

    Attributes:
        index: Position of each sample within its client's data, [steps, clients, width].
        rows: Where the sample is in the pool, likewise, once that is known.
        keys: Its key for draws within the step, likewise.
        views: How it is augmented for each view, [views, steps, clients, width, numbers]; keys alone before planning.
        sizes: How many of the samples count, [steps, clients]; 0 where a client is out of batches.
    """

    index: Tensor
    rows: Tensor | None
    keys: Tensor
    views: Tensor
    sizes: Tensor

    @classmethod
    def empty(cls, steps: int, clients: int, width: int, views: int, like: Tensor) -> Schedule:
        """Room for a schedule, in which nobody does anything, with plans of views that are ``like`` this one."""

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=like.device)

        room = steps, clients, width
        plans = like.new_zeros(views, *room, *like.shape)
        return cls(zeros(*room), zeros(*room), zeros(*room), plans, zeros(steps, clients))

    def part(self, clients: slice, steps: int, width: int) -> Schedule:
        """That of some of the clients, who make so many steps of so many samples at most."""
        index, keys = (table[:steps, clients, :width] for table in (self.index, self.keys))
        return Schedule(index, None, keys, self.views[:, :steps, clients, :width], self.sizes[:steps, clients])

    def located(self, rows: Tensor) -> Schedule:
        """The same, in a pool where the samples of each client are at ``rows``."""
        clients = torch.arange(len(rows), device=rows.device).unsqueeze(1)
        return replace(self, rows=rows[clients, self.index])

    def used_by(self, stream: torch.cuda.Stream) -> None:
        """Keep the memory until a stream is done with it that is not the one where this was made."""
        for table in (self.index, self.keys, self.views, self.sizes):
            table.record_stream(stream)

    def take(self, other: Schedule, steps: range) -> None:
        """Copy some steps of another schedule here; clients that are only here do nothing."""
        part, clients = slice(steps.start, steps.stop), min(self.sizes.shape[1], other.sizes.shape[1])
        for mine, others in zip(self._tables(), other._tables(), strict=True):
            if clients < mine.shape[1]:
                mine[:, clients:] = 0  # not what they did before: other data may have fewer rows
            mine[: len(steps), :clients] = others[part, :clients]
        self.views[:, : len(steps), :clients] = other.views[:, part, :clients]

    def _tables(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        assert self.rows is not None  # noqa: S101  (nobody steps before the rows are known)
        return self.index, self.rows, self.keys, self.sizes

    def at(self, step: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Index, rows, keys, sizes and views of one step, whose number is on the device."""
        index, rows, keys, sizes = (table.index_select(0, step).squeeze(0) for table in self._tables())
        return index, rows, keys, sizes, self.views.index_select(1, step).squeeze(1)


def make_schedule(plan: Plan, views: int, device: torch.device) -> Schedule:
    """The schedule of a phase, with so many views of each sample.

    A batch is padded with its own first sample. So padding brings no number into a step that is not there anyway.
    """
    clients = torch.arange(len(plan.keys), device=device)
    keys = torch.tensor(
        [
            [[make(key, epoch) for epoch in range(plan.epochs)] for key in plan.keys]
            for make in (order_key, step_key, *(_view_key(view) for view in range(views)))
        ],
        dtype=torch.int64,
    )
    cut = torch.tensor(
        [(count, len(sizes), sum(sizes)) for count, sizes in zip(plan.samples, plan.batches, strict=True)]
    )
    keys, (samples, steps, used) = sent(keys, device), sent(cut, device).unbind(1)
    step = torch.arange(max(plan.steps), device=device).unsqueeze(1)
    active = step < plan.epochs * steps
    epoch = torch.where(active, step // steps, 0)
    start = torch.where(active, step % steps * plan.batch_size, 0)
    sizes = torch.where(active, (used - start).clamp(max=plan.batch_size), 0)
    place = torch.arange(plan.width, device=device)
    place = start.unsqueeze(2) + torch.where(place < sizes.unsqueeze(2), place, 0)
    index = _orders(keys[0], samples, max(plan.samples))[clients.view(-1, 1), epoch.unsqueeze(2), place]
    own = keys[:, clients, epoch].unsqueeze(3)
    return Schedule(
        index=index,
        rows=None,
        keys=draws.spread(own[1], index),
        views=draws.spread(own[2:], index),
        sizes=sizes,
    )


def _view_key(view: int) -> Callable[[int, int], int]:
    return lambda key, epoch: view_key(key, epoch, view)


def _orders(keys: Tensor, samples: Tensor, most: int) -> Tensor:
    """The order in which each epoch of each client visits its samples, [clients, epochs, most]."""
    places = torch.arange(most, device=keys.device)
    drawn = draws.spread(keys.unsqueeze(2), places)
    # Sorting is stable: what is beyond a client's samples stays behind even a sample that draws the largest number.
    drawn = drawn.masked_fill(places >= samples.view(-1, 1, 1), torch.iinfo(torch.int64).max)
    return torch.argsort(drawn, dim=2, stable=True)
