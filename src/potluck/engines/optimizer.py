"""One step of learning: gradients clipped per group, a fresh optimiser per phase, parameters projected."""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.contract import Group, Networks, Phase
from potluck.training import Training


class Optimizer:
    """The optimiser of one phase of one client."""

    def __init__(self, phase: Phase, net: Networks, training: Training, factor: float) -> None:
        self.groups = phase.groups
        self._training = training
        self._parameters = [
            [p for name in group.networks for p in net.modules[name].parameters()] for group in self.groups
        ]
        entries = [
            self._entry(group, parameters, factor)
            for group, parameters in zip(self.groups, self._parameters, strict=True)
        ]
        self._optimizer: torch.optim.Optimizer
        if training.optimizer == "adam":
            self._optimizer = torch.optim.Adam(entries, lr=training.learning_rate, betas=training.betas, fused=True)
        else:
            self._optimizer = torch.optim.SGD(entries, lr=training.learning_rate, fused=True)

    def _entry(self, group: Group, parameters: list[torch.nn.Parameter], factor: float) -> dict[str, object]:
        run = self._training
        rate = run.learning_rate if group.learning_rate is None else group.learning_rate
        decay = run.weight_decay if group.weight_decay is None else group.weight_decay
        entry: dict[str, object] = {"params": parameters, "lr": rate * factor, "weight_decay": decay}
        if run.optimizer == "sgd":
            entry["momentum"] = run.momentum if group.momentum is None else group.momentum
        return entry

    def step(self, loss: Tensor) -> None:
        """One step down the gradient of ``loss``."""
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for group, parameters in zip(self.groups, self._parameters, strict=True):
            limit = self._training.clip_norm if group.clip_norm is None else group.clip_norm
            if limit is not None:
                torch.nn.utils.clip_grad_norm_(parameters, limit)
        self._optimizer.step()
        for group, parameters in zip(self.groups, self._parameters, strict=True):
            if group.project is not None:
                with torch.no_grad():
                    for parameter in parameters:
                        parameter.copy_(group.project(parameter))
