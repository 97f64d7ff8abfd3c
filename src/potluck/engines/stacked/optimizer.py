"""The optimisers of PyTorch, for all clients of a stack at once: each client is clipped and projected by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from potluck.engines.optimizer import Rule
from potluck.engines.stacked.template import Weights, keep
from potluck.engines.stacked.transfer import sent
from potluck.training import Training

Slot = Callable[[str, str], Tensor]
"""The memory of an optimiser by its kind and the path of a parameter, shaped as the stacked parameter."""

_ADAM_EPSILON = 1e-8
_CLIP_EPSILON = 1e-6


class Optimizer:
    """SGD or Adam, as in PyTorch, on stacked parameters.

    Learning rates lie on the device, so that a recorded step follows the schedule.

    Args:
        groups: How each group learns, and the paths of its parameters.
        training: Gives the kind of optimiser.
        slot: Gives it memory.
        device: Where the parameters are.
    """

    def __init__(
        self, groups: Sequence[tuple[Rule, Sequence[str]]], training: Training, slot: Slot, device: torch.device
    ) -> None:
        self._groups = groups
        self._rates = torch.zeros(len(groups), dtype=torch.float64, device=device)
        self._adam = training.optimizer == "adam"
        self._betas = training.betas
        self._slots: dict[str, tuple[Tensor, ...]] = {}
        for rule, paths in groups:
            kinds = ("mean", "square") if self._adam else ("velocity",) if rule.momentum else ()
            self._slots |= {path: tuple(slot(kind, path) for kind in kinds) for path in paths}

    def forget(self) -> None:
        """Be fresh, for a new phase."""
        for slots in self._slots.values():
            for slot in slots:
                slot.zero_()

    def set_rates(self, rates: Sequence[float]) -> None:
        """Take the learning rates of a round, one for each group."""
        self._rates.copy_(sent(torch.tensor(rates, dtype=torch.float64), self._rates.device))

    def step(self, weights: Weights, gradients: Weights, active: Tensor, number: Tensor) -> None:
        """One step down the gradients, for the clients that are active.

        Args:
            weights: Stacked parameters, which are changed.
            gradients: Of each.
            active: Which clients take the step.
            number: How many steps the phase has made with this one.
        """
        for (rule, paths), rate in zip(self._groups, self._rates.unbind(), strict=True):
            clipped = _clipped([gradients[path] for path in paths], rule.clip_norm)
            for path, gradient in zip(paths, clipped, strict=True):
                weight = weights[path]
                slope = torch.add(gradient, weight, alpha=rule.weight_decay) if rule.weight_decay else gradient
                move, memory = self._adams(path, slope, number) if self._adam else self._sgds(path, slope, rule)
                new = torch.addcmul(weight, move, rate.to(weight.dtype), value=-1)
                if rule.project is not None:
                    new = torch.func.vmap(rule.project)(new)
                for old, value in zip((weight, *self._slots[path]), (new, *memory), strict=True):
                    keep(active, value, old)

    def _sgds(self, path: str, slope: Tensor, rule: Rule) -> tuple[Tensor, tuple[Tensor, ...]]:
        if not rule.momentum:
            return slope, ()
        velocity = torch.add(slope, self._slots[path][0], alpha=rule.momentum)
        return velocity, (velocity,)

    def _adams(self, path: str, slope: Tensor, number: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        mean, square = self._slots[path]
        mean = torch.lerp(mean, slope, 1 - self._betas[0])
        square = torch.addcmul(self._betas[1] * square, slope, slope, value=1 - self._betas[1])
        # In float64, as PyTorch has them: the powers are close to 1 at first.
        first, second = ((1 - beta ** number.double()).to(mean.dtype) for beta in self._betas)
        return mean / first / (square.sqrt() / second.sqrt() + _ADAM_EPSILON), (mean, square)


def _clipped(gradients: Sequence[Tensor], limit: float | None) -> Sequence[Tensor]:
    """The gradients of one group, those of each client scaled down to a norm of at most ``limit``."""
    if limit is None or math.isinf(limit) or not gradients:
        return gradients
    norms = torch.stack([torch.linalg.vector_norm(g.reshape(len(g), -1), dim=1) for g in gradients])
    scale = (limit / (torch.linalg.vector_norm(norms, dim=0) + _CLIP_EPSILON)).clamp(max=1)
    return [gradient * scale.view(-1, *(1 for _ in gradient.shape[1:])) for gradient in gradients]
