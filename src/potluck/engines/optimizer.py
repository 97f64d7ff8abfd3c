"""One step of learning: gradients clipped per group, a fresh optimiser per phase, parameters projected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.contract import Group, Networks, Phase
from potluck.training import Training


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


class Optimizer:
    """The optimiser of one phase of one client."""

    def __init__(self, phase: Phase, net: Networks, training: Training, factor: float) -> None:
        self._rules = [Rule.of(group, training) for group in phase.groups]
        self._parameters = [
            [p for name in group.networks for p in net.modules[name].parameters()] for group in phase.groups
        ]
        entries: list[dict[str, object]] = [
            {"params": parameters, "lr": rule.learning_rate * factor, "weight_decay": rule.weight_decay}
            for rule, parameters in zip(self._rules, self._parameters, strict=True)
        ]
        self._optimizer: torch.optim.Optimizer
        if training.optimizer == "adam":
            self._optimizer = torch.optim.Adam(entries, lr=training.learning_rate, betas=training.betas, fused=True)
        else:
            for entry, rule in zip(entries, self._rules, strict=True):
                entry["momentum"] = rule.momentum
            self._optimizer = torch.optim.SGD(entries, lr=training.learning_rate, fused=True)

    def step(self, loss: Tensor) -> None:
        """One step down the gradient of ``loss``."""
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for rule, parameters in zip(self._rules, self._parameters, strict=True):
            if rule.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(parameters, rule.clip_norm)
        self._optimizer.step()
        for rule, parameters in zip(self._rules, self._parameters, strict=True):
            if rule.project is not None:
                with torch.no_grad():
                    for parameter in parameters:
                        parameter.copy_(rule.project(parameter))
