"""The optimisers of PyTorch, for all clients of a stack at once: each client is clipped and projected by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.engines.optimizer import ADAM_EPSILON, Rule
from potluck.engines.stacked.layout import Run
from potluck.engines.stacked.operations.kernels import usable
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.template import Weights, keep
from potluck.engines.stacked.transfer import sent
from potluck.training import Training

_CLIP_EPSILON = 1e-6


@dataclass(frozen=True)
class _Block:
    """Parameters that move together: where they lie, as [clients, numbers], and what is remembered of each number."""

    run: Run
    weights: Tensor
    slots: tuple[Tensor, ...]


class Optimizer:
    """SGD or Adam, as in PyTorch, on stacked parameters.

    Learning rates lie on the device, so that a recorded step follows the schedule. Parameters that lie one behind the
    other are moved as one: an operation for each of them would take longer to begin than to do.

    Args:
        groups: How each group learns, and the paths of its parameters.
        training: Gives the kind of optimiser.
        stack: Has the parameters, and memory.
        count: How many of its clients learn.
    """

    def __init__(
        self, groups: Sequence[tuple[Rule, Sequence[str]]], training: Training, stack: Stack, count: int
    ) -> None:
        self._adam = training.optimizer == "adam"
        self._betas = training.betas
        self._rates = torch.zeros(len(groups), dtype=torch.float64, device=stack.device)
        self._groups: list[tuple[Rule, list[_Block]]] = []
        for rule, paths in groups:
            kinds = ("mean", "square") if self._adam else ("velocity",) if rule.momentum else ()
            slots = [stack.slots(kind)[:count] for kind in kinds]
            runs = stack.template.layout.runs(paths, apart=rule.project is not None)
            blocks = [_Block(run, run.of(stack.rows[:count]), tuple(run.of(slot) for slot in slots)) for run in runs]
            self._groups.append((rule, blocks))

    def forget(self) -> None:
        """Be fresh, for a new phase."""
        for _, blocks in self._groups:
            for block in blocks:
                for slot in block.slots:
                    slot.zero_()

    def set_rates(self, rates: Sequence[float]) -> None:
        """Take the learning rates of a round, one for each group."""
        self._rates.copy_(sent(torch.tensor(rates, dtype=torch.float64), self._rates.device))

    def step(self, gradients: Weights, active: Tensor, number: Tensor) -> None:
        """One step down the gradients, for the clients that are active.

        Args:
            gradients: Of each parameter, by its path.
            active: Which clients take the step.
            number: How many steps the phase has made with this one.
        """
        for (rule, blocks), rate in zip(self._groups, self._rates.unbind(), strict=True):
            slopes = [block.run.joined(gradients) for block in blocks]
            limit = math.inf if rule.clip_norm is None else rule.clip_norm
            norm = None if math.isinf(limit) or not slopes else _norm(slopes)
            for block, gradient in zip(blocks, slopes, strict=True):
                if self._descends(block, gradient, norm, limit, rule, rate, active):
                    continue
                weights = block.weights
                slope = gradient if norm is None else gradient * _scale(norm, limit).unsqueeze(1)
                slope = torch.add(slope, weights, alpha=rule.weight_decay) if rule.weight_decay else slope
                move, memory = self._adams(block, slope, number) if self._adam else self._sgds(block, slope, rule)
                new = torch.addcmul(weights, move, rate.to(weights.dtype), value=-1)
                if rule.project is not None:
                    (field,) = block.run.fields.values()
                    new = torch.func.vmap(rule.project)(new.view(-1, *field.shape)).reshape(weights.shape)
                for old, value in zip((weights, *block.slots), (new, *memory), strict=True):
                    keep(active, value, old)

    def _descends(
        self, block: _Block, gradient: Tensor, norm: Tensor | None, limit: float, rule: Rule, rate: Tensor,
        active: Tensor,
    ) -> bool:  # fmt: skip
        """Take the step in one go, if there is a kernel for it."""
        kernels = usable(block.weights) if block.weights.dtype == torch.float32 else None
        if self._adam or rule.project is not None or kernels is None:
            return False
        kernels.descend(
            block.weights, *block.slots or (None,), gradient, norm, rate, active,
            limit=limit, epsilon=_CLIP_EPSILON, decay=rule.weight_decay, momentum=rule.momentum,
        )  # fmt: skip
        return True

    def _sgds(self, block: _Block, slope: Tensor, rule: Rule) -> tuple[Tensor, tuple[Tensor, ...]]:
        if not rule.momentum:
            return slope, ()
        velocity = torch.add(slope, block.slots[0], alpha=rule.momentum)
        return velocity, (velocity,)

    def _adams(self, block: _Block, slope: Tensor, number: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        mean, square = block.slots
        mean = torch.lerp(mean, slope, 1 - self._betas[0])
        square = torch.addcmul(self._betas[1] * square, slope, slope, value=1 - self._betas[1])
        # In float64, as PyTorch has them: the powers are close to 1 at first.
        first, second = ((1 - beta ** number.double()).to(mean.dtype) for beta in self._betas)
        return mean / first / (square.sqrt() / second.sqrt() + ADAM_EPSILON), (mean, square)


def _norm(gradients: Sequence[Tensor]) -> Tensor:
    """The norm of the gradients of one group, for each client."""
    norms: list[Tensor] = [torch.linalg.vector_norm(gradient, dim=1) for gradient in gradients]
    return norms[0] if len(norms) == 1 else torch.stack(norms).square().sum(0).sqrt()


def _scale(norm: Tensor, limit: float) -> Tensor:
    """By what gradients of this norm are scaled down to one of at most ``limit``."""
    scale: Tensor = limit / (norm + _CLIP_EPSILON)
    return scale.clamp(max=1)
