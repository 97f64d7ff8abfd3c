"""One step of all clients of a stack, made again and again until a phase is over."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.contract import Batch, Phase
from potluck.data.transform import Transform
from potluck.engines.optimizer import Rule
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.gradient import gradients_and_value
from potluck.engines.stacked.operations.augmentation import augmented
from potluck.engines.stacked.optimizer import Optimizer
from potluck.engines.stacked.schedule import Schedule
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Weights, keep
from potluck.training import Training

Parts = tuple[Sequence[Tensor], Tensor, Tensor, Tensor, Tensor]
"""What a batch is made of."""


@dataclass(frozen=True)
class Room:
    """How many clients, samples of each, and steps a program has room for."""

    clients: int
    width: int
    steps: int


class Program:
    """The steps of a phase for the first clients of a stack.

    All that a step needs is in tensors that stay where they are, and it reads them at a counter that lies there too:
    so it can be recorded once and replayed for every step, in every round.

    Args:
        stack: The clients.
        phase: What they do.
        untouched: Parameters of learning networks that the loss does not reach: no optimiser changes them.
        training: How they learn.
        transform: How samples become inputs.
        room: For how much.
        studio: Records the step, where that is possible.
        name: What is the same for all programs of this phase, whatever their room.
    """

    def __init__(
        self,
        stack: Stack,
        phase: Phase,
        untouched: frozenset[str],
        training: Training,
        transform: Transform,
        room: Room,
        studio: Studio,
        name: Hashable = None,
    ) -> None:
        self.stack, self.phase, self.room = stack, phase, room
        self._training, self._transform, self._studio, self._name = training, transform, studio, name
        device, count = stack.device, room.clients
        groups = [
            (Rule.of(group, training), [p for p in stack.template.parameters(group.networks) if p not in untouched])
            for group in phase.groups
        ]
        self._optimizer = Optimizer(groups, training, stack, count)
        learning = {path for _, paths in groups for path in paths}
        self._learning = {path: tensor[:count] for path, tensor in stack.weights.items() if path in learning}
        self._rest = {path: tensor[:count] for path, tensor in stack.weights.items() if path not in learning}
        self._dtype = next(tensor.dtype for tensor in self._learning.values())
        views = phase.views if phase.augmented else 0
        plan = transform.plan(torch.zeros((), dtype=torch.int64, device=device), stack.template.task.shape)
        self._schedule = Schedule.empty(room.steps, count, room.width, views, plan)
        self._place = torch.arange(room.width, device=device)
        self._done, self._before = (torch.zeros(1, dtype=torch.int64, device=device) for _ in range(2))
        self.total = torch.zeros(count, dtype=torch.float64, device=device)
        """The sum of each client's loss over its samples."""
        self._pool: Pool | None = None
        self._received: Weights = {}
        self._recording: Callable[[], None] | None = None

    def load(self, phase: Phase, pool: Pool, schedule: Schedule, steps: range, factor: float) -> None:
        """Get ready for some of the steps of a phase.

        Args:
            phase: As given before, or made anew for another round.
            pool: The samples.
            schedule: Of the whole phase.
            steps: Those that will be made, by the first clients of the schedule. Step 0 is that of a fresh optimiser.
            factor: Of the learning rates in this round.
        """
        self.phase = phase
        self._schedule.take(schedule, steps)
        self._before.fill_(steps.start)
        self.total.zero_()
        if steps.start == 0:
            self._optimizer.forget()
        self._optimizer.set_rates([Rule.of(group, self._training).learning_rate * factor for group in phase.groups])
        if self._pool is None or pool.x is not self._pool.x or pool.y is not self._pool.y or (
            self.stack.received is not self._received
        ):  # fmt: skip
            # A recording knows where things lay, and these now lie elsewhere.
            self._pool, self._received, self._recording = pool, self.stack.received, None
        if self._recording is None and self._studio.records(self._name):
            self._record()
        self._done.zero_()

    def _record(self) -> None:
        """Record the step, with nobody active: so trying it changes nothing."""
        sizes = self._schedule.sizes.clone()
        self._schedule.sizes.zero_()
        self._done.zero_()
        self._recording = self._studio.record(self._name, self.run)
        self._schedule.sizes.copy_(sizes)

    def step(self) -> None:
        """Make the next step."""
        (self._recording or self.run)()

    @torch.no_grad()
    def run(self) -> None:
        """The next step, operation by operation."""
        # In every one: another team of the architecture, which may be elsewhere in the round, has the same networks.
        self.stack.template.train(self.phase.learning)
        index, rows, keys, sizes, plans = self._schedule.at(self._done)
        active = sizes > 0
        weight = (self._place < sizes.unsqueeze(1)).to(self._dtype)
        received = {name: tensor[: self.room.clients] for name, tensor in self._received.items()}
        inputs, y = self._samples(rows, plans)
        gradients, (losses, statistics) = torch.func.vmap(self._gradients)(
            self._learning, self._rest, (inputs, y, weight, index, keys), received
        )
        self._done += 1
        self._optimizer.step(gradients, active, (self._before + self._done).squeeze(0))
        for path, value in statistics.items():
            keep(active, value, self._rest[path])
        self.total += (losses * sizes).double().masked_fill(~active, 0)

    def _samples(self, rows: Tensor, plans: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """The views and labels of the samples at ``rows``, all clients' at once."""
        assert self._pool is not None  # noqa: S101  (loaded before any step)
        flat = rows.flatten()
        x, y = self._pool.x, self._pool.y.index_select(0, flat).to(torch.int64)
        if self.phase.augmented:
            views = [augmented(self._transform, x, flat, plan.flatten(0, 1), self._dtype) for plan in plans.unbind()]
        else:
            views = [self._transform.plain(x.index_select(0, flat), self._dtype)] * self.phase.views
        return tuple(view.view(*rows.shape, *view.shape[1:]) for view in views), y.view(rows.shape)

    def _gradients(
        self, learning: Weights, rest: Weights, parts: Parts, received: Weights
    ) -> tuple[Weights, tuple[Tensor, Weights]]:
        """Gradients, loss and new statistics of one client."""

        def loss(weights: Weights) -> tuple[Tensor, Weights]:
            views, y, weight, index, key = parts
            batch = Batch(tuple(views), y, weight, index, key)
            return self.stack.template.loss(self.phase, {**rest, **weights}, batch, received)

        return gradients_and_value(loss, learning)
