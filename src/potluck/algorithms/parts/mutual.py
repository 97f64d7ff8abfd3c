"""Mutual learning: a client's own model and the small shared one teach each other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from potluck.algorithms.base import Algorithm
from potluck.algorithms.parts.small_model import SETTING, small_model
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload, mean
from potluck.contract import Batch, Group, Networks, Phase, Received, Round, Task


def divergence(teacher: Tensor, student: Tensor, batch: Batch) -> Tensor:
    """KL divergence of the student's softmax from the teacher's, which is a constant; the mean over samples."""
    known, learned = teacher.detach().log_softmax(1), student.log_softmax(1)
    return batch.mean((known.exp() * (known - learned)).sum(1))


class MutualLearning(Algorithm):
    """A client holds its own model and the small one (``small_body``, ``small_head``), which is averaged equally.

    Both are trained at once by one loss, in which each sees the other as a constant: so each learns by its own part.
    """

    down: ClassVar[str] = "the small model"
    up: ClassVar[str] = "the small model"
    shared: ClassVar[tuple[str, ...]] = ("small_body", "small_head")

    small_model: str = setting("auto", SETTING, paper="its own; CNN-5 in pFedES, FedGH and pFedAFM")

    def networks(self, model: nn.Module, task: Task) -> dict[str, nn.Module]:
        """The client's own model, and the small one."""
        return {**super().networks(model, task), **self.server_networks(task)}

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        """The small model. For another one, override this."""
        return {f"small_{name}": part for name, part in small_model(self.small_model, task).items()}

    def phases(self, round: Round) -> Sequence[Phase]:
        """Both models at once."""
        return (Phase(train=("body", "head", self.beside), loss=self.mutual_loss),)

    @property
    def beside(self) -> Group:
        """The networks that learn beside the client's own model, and their rule."""
        return Group(self.shared)

    @abstractmethod
    def mutual_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """The losses of both models, added."""

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """The mean of the small models, each client counting the same."""
        return mean(uploads, weighted=False)


def small_logits(net: Networks, x: Tensor) -> Tensor:
    """What the small model predicts."""
    return net.small_head(net.small_body(x))


def received_small_logits(net: Networks, x: Tensor, received: Received) -> Tensor:
    """What the small model predicts as it was received, whatever the client has made of it since."""
    return net.call("small_head", net.call("small_body", x, weights=received), weights=received)


class Ensemble(nn.Module):
    """One learned number: the weight of a client's own logits against those of the small model."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.5))

    def forward(self, own: Tensor, small: Tensor) -> Tensor:
        """Both logits, weighted."""
        return self.weight * own + (1 - self.weight) * small
