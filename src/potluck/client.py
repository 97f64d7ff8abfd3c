"""A client: one participant, with private data and a model of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from potluck.data.examples import Examples
from potluck.errors import PotluckError
from potluck.models.fingerprint import fingerprint

if TYPE_CHECKING:
    from potluck.federation import Federation

Samples = Examples | tuple[Tensor | np.ndarray, Tensor | np.ndarray]


@dataclass(frozen=True, eq=False)
class Architecture:
    """How to make a model with its initial weights; clients of one key can share a module.

    Attributes:
        key: The same for models that differ in their weights alone.
        build: Makes the model. Every call gives the same weights.
    """

    key: str
    build: Callable[[], nn.Module]

    @classmethod
    def of(cls, model: nn.Module) -> Architecture:
        """The architecture of a ready-made model, which is copied and never changed."""
        return cls(fingerprint(model), lambda: copy.deepcopy(model))


class Client:
    """One participant of a federation.

    Args:
        model: Its own network, any ``nn.Module`` that ends in a linear layer and returns logits. It is copied.
        train: Inputs and labels to learn from.
        test: Inputs and labels to be judged by.
        validation: Inputs and labels to choose a round by.
        holdout: Samples for methods that need a share set aside; cut from ``train`` if not given.
    """

    def __init__(
        self,
        model: nn.Module | Architecture,
        train: Samples,
        test: Samples | None = None,
        validation: Samples | None = None,
        holdout: Samples | None = None,
    ) -> None:
        self.architecture = model if isinstance(model, Architecture) else Architecture.of(model)
        self.train = _examples(train)
        self.test = _examples(test)
        self.validation = _examples(validation)
        self.holdout = _examples(holdout)
        self.id = -1
        self._federation: Federation | None = None

    def join(self, federation: Federation, number: int) -> None:
        """Become client ``number`` of a federation."""
        self.id, self._federation = number, federation

    def logits(self, x: Tensor) -> Tensor:
        """The personal model's outputs for ``x``, inputs like this client's own."""
        if self._federation is None:
            raise PotluckError(
                "this client has not joined a federation yet: give it to potluck.Federation and run that."
            )
        return self._federation.logits(self, x)

    def predict(self, x: Tensor) -> Tensor:
        """The personal model's classes for ``x``, inputs like this client's own."""
        return self.logits(x).argmax(1)

    def networks(self) -> dict[str, nn.Module]:
        """Copies of the networks this client holds now, by name: ``body`` and ``head`` are its own model."""
        if self._federation is None:
            raise PotluckError(
                "this client has not joined a federation yet: give it to potluck.Federation and run that."
            )
        return self._federation.networks(self)

    def __repr__(self) -> str:
        return f"Client(id={self.id}, train={len(self.train)}, test={len(self.test)})"


def _examples(samples: Samples | None) -> Examples:
    if isinstance(samples, Examples):
        return samples
    if samples is None:
        return Examples(torch.empty(0), torch.empty(0, dtype=torch.int64))
    x, y = (torch.as_tensor(part) for part in samples)
    return Examples(x, y)
