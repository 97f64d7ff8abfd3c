"""Whether clients of an architecture can step together at all: found out by one made-up step, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms import Algorithm
from potluck.contract import Batch, Networks, Phase, Received, Task
from potluck.data.transform import Transform
from potluck.engines.optimizer import Optimizer
from potluck.engines.randomness import CounterDropout
from potluck.engines.stacked.capture import Studio
from potluck.engines.stacked.data import Pool
from potluck.engines.stacked.failure import in_short
from potluck.engines.stacked.program import Program, Room
from potluck.engines.stacked.reading import collect_batch, predict_batch
from potluck.engines.stacked.schedule import Schedule
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Template, Weights
from potluck.engines.threads import threads
from potluck.models.copying import copy_of
from potluck.training import Training

T = TypeVar("T")
_CPU = torch.device("cpu")
_REAL, _ALL = 3, 5
"""Samples that count, and with padding."""
_PERIOD = 10_007
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 5e-2}


class NotStackableError(Exception):
    """Clients of an architecture cannot step together; the message says why."""


@dataclass(frozen=True)
class Verdict:
    """What a trial found out about a phase that can be stacked.

    Attributes:
        untouched: Parameters of learning networks that the loss does not reach.
        takes_two: Whether batch norm needs at least two samples in every batch.
    """

    untouched: frozenset[str]
    takes_two: bool


def try_phase(
    modules: Mapping[str, nn.Module], phase: Phase, received: Received, training: Training, task: Task,
    dtype: torch.dtype,
) -> Verdict:  # fmt: skip
    """Make one step of a phase alone and stacked: a verdict if both are the same, and else an error that says why."""
    return _in_either(dtype, lambda kind: _phase(_Stage(modules, received, task, kind), phase, training))


def try_reading(
    modules: Mapping[str, nn.Module], algorithm: Algorithm, received: Received, task: Task, dtype: torch.dtype
) -> bool:
    """Predict and collect alone and stacked, likewise; whether batch norm needs two samples there."""
    return _in_either(dtype, lambda kind: _reading(_Stage(modules, received, task, kind), algorithm))


def _in_either(dtype: torch.dtype, trial: Callable[[torch.dtype], T]) -> T:
    """Try in float64, where no rounding hides a difference; a model that cannot do that, in its own type."""
    reason = ""
    for kind in dict.fromkeys((torch.float64, dtype)):
        try:
            # A few samples at a time: more threads would mostly wait for each other.
            with threads(1):
                return trial(kind)
        except NotStackableError:
            raise
        except Exception as error:  # whatever a model or a loss may raise
            reason = in_short(error)
    raise NotStackableError(reason)


class _Stage:
    """Made-up samples and slightly changed weights: none of them zero by chance, and so none of the gradients."""

    def __init__(self, modules: Mapping[str, nn.Module], received: Received, task: Task, dtype: torch.dtype) -> None:
        self.task, self.dtype = task, dtype
        self.modules = {name: module.to(_CPU, dtype) for name, module in copy_of(dict(modules)).items()}
        self.received = {
            name: tensor.to(_CPU, dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in received.items()
        }
        for number, parameter in enumerate(p for module in self.modules.values() for p in module.parameters()):
            parameter.detach().add_(_noise(number, parameter.shape, dtype) - 0.5, alpha=0.05)
        self.template = Template(self.modules, task)
        self.before = Networks(self.modules).state()
        self.stack = Stack(self.template, 2, _CPU)
        self.stack.load([self.before, self.before])
        self.stack.receive([self.received], ())
        self.x, self.y = _noise(-1, (_ALL, *task.shape), dtype), torch.arange(_ALL) % task.classes
        # The first sample of a data set, always: there is one in every data set that a loss may look things up in.
        self.index = torch.zeros(_ALL, dtype=torch.int64)
        self.keys = draws.spread(0, torch.arange(_ALL))
        self.limit = _TOLERANCE[dtype]

    def batch(self, views: int) -> Batch:
        """The samples that count."""
        part = slice(_REAL)
        weight = torch.ones(_REAL, dtype=self.dtype)
        return Batch((self.x[part],) * views, self.y[part], weight, self.index[part], self.keys[part])

    def same(self, what: str, one: Tensor, other: Tensor, scale: float) -> None:
        if one.numel() and not (one - other).abs().max() <= self.limit * scale and (
            # Infinities are their own equals, too, but have no difference.
            not torch.isclose(one, other.to(one.dtype), rtol=0, atol=self.limit * scale, equal_nan=True).all()
        ):  # fmt: skip
            raise NotStackableError(f"stacked with others, and padded, its {what} is not the same")


def _noise(key: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Numbers from 0 to 1, repeated after a while: a prime, so that no row is like the next."""
    shape = torch.Size(shape)
    drawn = draws.uniform(draws.spread(draws.fold(key, "trial"), torch.arange(_PERIOD))).to(dtype)
    return drawn.repeat(-(-shape.numel() // _PERIOD))[: shape.numel()].reshape(shape)


def _phase(stage: _Stage, phase: Phase, training: Training) -> Verdict:
    net = Networks(stage.modules, task=stage.task)
    for name, module in net.modules.items():
        module.train(name in phase.learning).requires_grad_(name in phase.learning)
    batch = stage.batch(phase.views)
    optimizer = Optimizer(phase, net, training, 1.0)
    with CounterDropout(batch.key):
        loss = phase.loss(net, batch, stage.received)
    optimizer.step(loss)
    first = stage.template.first
    reached = {path for name in phase.learning for path, p in net.parameters(name).items() if p.grad is not None}
    untouched = {path for path in stage.template.parameters(phase.learning) if path not in {first[p] for p in reached}}
    program = _stacked_step(stage, phase, frozenset(untouched), training)
    stage.same("loss", loss.detach(), program.total[0] / _REAL, 1 + abs(float(loss.detach())))
    _compare(stage, net.state(), stage.stack.weights)
    return Verdict(frozenset(untouched), stage.template.norms.takes_two)


def _stacked_step(stage: _Stage, phase: Phase, untouched: frozenset[str], training: Training) -> Program:
    """The same step for two clients: one with padded samples, the other out of batches."""
    room = Room(clients=2, width=_ALL, steps=1)
    program = Program(stage.stack, phase, untouched, training, Transform(), room, Studio(_CPU))
    rows = torch.arange(_ALL)
    index, places, keys = (table.expand(1, 2, -1) for table in (stage.index, rows, stage.keys))
    views = Transform().plan(keys.expand(phase.views if phase.augmented else 0, -1, -1, -1), stage.task.shape)
    schedule = Schedule(index, places, keys, views, sizes=torch.tensor([[_REAL, 0]]))
    program.load(phase, Pool(stage.x, stage.y, rows.unsqueeze(0)), schedule, range(1), 1.0)
    program.step()
    return program


def _compare(stage: _Stage, alone: Weights, stacked: Weights) -> None:
    moves = [
        (alone[path].double() - stage.before[path].double()).abs().max() for path in stacked if alone[path].numel()
    ]
    scale = float(torch.stack(moves).nan_to_num(0, 0, 0).max()) if moves else 1.0
    for path, tensor in stacked.items():
        stage.same(path, alone[path], tensor[0], scale)
        if not torch.equal(tensor[1], stage.before[path]):
            raise NotStackableError(f"it changes {path} by itself")


def _reading(stage: _Stage, algorithm: Algorithm) -> bool:
    for module in (*stage.modules.values(), *stage.template.modules.values()):
        module.eval()
    net, batch = Networks(stage.modules, task=stage.task), stage.batch(1)
    weight = torch.tensor([[1.0] * _REAL + [0.0] * (_ALL - _REAL), [0.0] * _ALL], dtype=stage.dtype)
    x, y, index = (tensor.expand(2, *tensor.shape) for tensor in (stage.x, stage.y, stage.index))
    given = stage.template, algorithm, stage.stack.weights, stage.stack.received, Batch((x,), y, weight, index, index)
    with torch.no_grad():
        logits = algorithm.predict(net, batch.x, stage.received)
        found = predict_batch(*given)[0, :_REAL]
        if logits.shape != (_REAL, stage.task.classes):
            raise NotStackableError(f"its prediction has the shape {tuple(logits.shape)}")
        stage.same("prediction", logits, found, 1 + float(logits.abs().max()))
        if algorithm.collects is not None:
            sums = collect_batch(*given)
            for name, value in algorithm.collect(net, batch, stage.received).items():
                stage.same(f"collected {name!r}", value, sums[name][0], 1 + float(value.abs().max()))
    _compare(stage, stage.before, stage.stack.weights)
    return stage.template.norms.takes_two
