"""Stretches of local training, and the round they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from potluck.contract.batch import Batch
from potluck.contract.networks import Networks
from potluck.errors import AlgorithmError

Received = Mapping[str, Tensor]
"""What a client received, as tensors by name: the second argument of ``predict``, the third of every loss."""

Loss = Callable[[Networks, Batch, Received], Tensor]
"""A pure function of tensors that returns one scalar."""


@dataclass(frozen=True)
class Round:
    """A communication round.

    Attributes:
        number: Counted from 1. Round 0 is the enrolment of algorithms that have one.
        total: Rounds of the whole run.
        key: Key for the server's own random draws in this round.
    """

    number: int
    total: int
    key: int = 0


@dataclass(frozen=True)
class Group:
    """Networks that learn by the same rule; what is ``None`` is the run's own setting.

    Attributes:
        networks: Names of the networks.
        learning_rate: Step size.
        momentum: Momentum of SGD.
        weight_decay: Weight decay.
        clip_norm: Largest norm of the group's gradient; ``math.inf`` to not clip.
        project: Applied to every parameter after each step, for example ``lambda w: w.clamp(0, 1)``.
    """

    networks: tuple[str, ...]
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    project: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Phase:
    """One stretch of local training with a fresh optimiser: which networks learn, by which loss, for how long.

    Networks that learn are in train mode; all others are frozen: in eval mode, without gradients, their parameters
    and buffers unchanged.

    Attributes:
        train: Names of the networks that learn by the run's settings, and groups with settings of their own.
        loss: Of the networks, a batch and what was received.
        epochs: Passes over the data; ``None`` is the run's own setting.
        data: Which data of the client.
        views: How many independently augmented views a batch has.
        augment: Whether to augment; ``None`` augments ``train`` data alone.
    """

    train: tuple[str | Group, ...]
    loss: Loss
    epochs: int | None = None
    data: Literal["train", "holdout", "public"] = "train"
    views: int = 1
    augment: bool | None = None

    def __post_init__(self) -> None:
        """Refuse a single name where several are expected, whose letters would be taken for names."""
        for names in (self.train, *(entry.networks for entry in self.train if isinstance(entry, Group))):
            if isinstance(names, str):
                raise AlgorithmError(f"a phase trains several networks, as in ({names!r},): {names!r} is one.")

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of this phase: those named alone form one."""
        plain = tuple(entry for entry in self.train if isinstance(entry, str))
        own = tuple(entry for entry in self.train if isinstance(entry, Group))
        return ((Group(plain),) if plain else ()) + own

    @property
    def learning(self) -> tuple[str, ...]:
        """Names of all networks that learn."""
        return tuple(name for group in self.groups for name in group.networks)

    @property
    def augmented(self) -> bool:
        """Whether the inputs are augmented."""
        return self.data == "train" if self.augment is None else self.augment
