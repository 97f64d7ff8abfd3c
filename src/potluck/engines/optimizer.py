"""One step of learning: gradients clipped per group, a fresh optimiser per phase, parameters projected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from potluck.contract import Group, Networks, Phase
from potluck.errors import ModelError
from potluck.training import Training

ADAM_EPSILON = 1e-8


@dataclass(frozen=True)
class Rule:
    """How a group of networks learns: its own settings, and where it has none, the run's.

    >>> Rule.of(Group(("head",), learning_rate=0.5), Training(momentum=0.8))
    Rule(learning_rate=0.5, momentum=0.8, weight_decay=0.001, clip_norm=50.0, project=None)
    """

    learning_rate: float
    momentum: float
    weight_decay: float
    clip_norm: float | None
    project: Callable[[Tensor], Tensor] | None

    @classmethod
    def of(cls, group: Group, training: Training) -> Rule:
        """The rule of a group in a run."""
        return cls(
            training.learning_rate if group.learning_rate is None else group.learning_rate,
            training.momentum if group.momentum is None else group.momentum,
            training.weight_decay if group.weight_decay is None else group.weight_decay,
            training.clip_norm if group.clip_norm is None else group.clip_norm,
            group.project,
        )


@dataclass
class _Group:
    """Parameters that learn by one rule, and what is remembered of each of them, by its place."""

    rule: Rule
    parameters: list[nn.Parameter]
    velocity: dict[int, Tensor | None] = field(default_factory=dict)
    moments: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)


class Optimizer:
    """The optimiser of one phase of one client: PyTorch's own SGD or Adam.

    By its functions. The first of its classes that is made in a process would load PyTorch's compiler, which takes a
    second or more, and is not needed here.
    """

    def __init__(self, phase: Phase, net: Networks, training: Training, factor: float) -> None:
        self._training, self._factor = training, factor
        self._groups = [
            _Group(Rule.of(group, training), _parameters(group, net)) for group in phase.groups
        ]  # fmt: skip
        every = [parameter for group in self._groups for parameter in group.parameters]
        if len(set(every)) < len(every):
            raise ModelError("two groups of a phase have a weight in common: it can learn by the rule of one only.")

    def step(self, loss: Tensor) -> None:
        """One step down the gradient of ``loss``."""
        for group in self._groups:
            for parameter in group.parameters:
                parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        for group in self._groups:
            if group.rule.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(group.parameters, group.rule.clip_norm)
            with torch.no_grad():
                self._move(group)
                if group.rule.project is not None:
                    for parameter in group.parameters:
                        parameter.copy_(group.rule.project(parameter))

    def _move(self, group: _Group) -> None:
        """Change the parameters that the loss reaches."""
        reached = [place for place, parameter in enumerate(group.parameters) if parameter.grad is not None]
        if self._training.optimizer == "adam":
            self._adams(group, reached)
        else:
            # Who has no velocity yet takes its gradient for one.
            fresh = [place for place in reached if group.velocity.get(place) is None]
            for places in (fresh, [place for place in reached if place not in fresh]):
                self._sgds(group, places)

    def _sgds(self, group: _Group, places: Sequence[int]) -> None:
        parameters, gradients = _of(group, places)
        velocities = [group.velocity.get(place) for place in places]
        if parameters:
            sgd(
                parameters, gradients, velocities, fused=True, lr=group.rule.learning_rate * self._factor,
                momentum=group.rule.momentum, weight_decay=group.rule.weight_decay, dampening=0.0, nesterov=False,
                maximize=False,
            )  # fmt: skip
            group.velocity.update(zip(places, velocities, strict=True))

    def _adams(self, group: _Group, places: Sequence[int]) -> None:
        parameters, gradients = _of(group, places)
        for place, parameter in zip(places, parameters, strict=True):
            if place not in group.moments:
                steps = torch.zeros((), dtype=torch.float32, device=parameter.device)
                group.moments[place] = torch.zeros_like(parameter), torch.zeros_like(parameter), steps
        if parameters:
            means, squares, counts = (
                list(each) for each in zip(*(group.moments[place] for place in places), strict=True)
            )
            first, second = self._training.betas
            adam(
                parameters, gradients, means, squares, [], counts, fused=True, amsgrad=False, beta1=first, beta2=second,
                lr=group.rule.learning_rate * self._factor, weight_decay=group.rule.weight_decay, eps=ADAM_EPSILON,
                maximize=False,
            )  # fmt: skip


def _parameters(group: Group, net: Networks) -> list[nn.Parameter]:
    """Those of all networks of a group, each once."""
    return list(dict.fromkeys(p for name in group.networks for p in net.modules[name].parameters()))


def _of(group: _Group, places: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
    """Parameters at these places, and their gradients."""
    parameters: list[Tensor] = [group.parameters[place] for place in places]
    return parameters, [parameter.grad for parameter in parameters if parameter.grad is not None]
