"""FedTGP: the server learns prototypes that keep classes apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms.fedproto import FedProto
from potluck.algorithms.parts.class_means import check_class_means, class_means
from potluck.algorithms.parts.class_table import distances
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload
from potluck.contract import Networks, Received, Round, Task
from potluck.metrics.server import counted_once
from potluck.payload import Payload
from potluck.settings import MOST

_NAME = "prototypes"
_PARTS = ("embedding.weight", "0.weight", "0.bias", "2.weight", "2.bias")


class FedTGP(FedProto):
    """Trainable global prototypes with an adaptive margin.

    Clients train as in FedProto, and send mean representations of the trained model. The server does not average these
    but trains a prototype for each class, to be near the representations sent for it and far from all others: by
    cross-entropy over the negative distances, with a margin added to the distance of the right class. The margin is
    min(largest distance between two classes, ``margin``), where a class stands for the mean of what was sent for it.
    (The released code takes the largest distance of a class from its nearest neighbour: ``margin_rule = "release"``.)
    With a single class it is ``margin``. All prototypes go to every client; in the first round there are none.

    The text of the paper was not available. The margin is the paper's as others quote it; all else follows the authors'
    code, except that there the representations sent are those of the model before training.

    The server learns by plain gradient descent. The run's learning rate, momentum, weight decay, clip_norm and schedule
    do not apply to its steps. Smaller batches make more and longer steps: with ``server_batch_size = 1``, lower
    ``server_learning_rate`` as well, or training may diverge.
    """

    name: ClassVar[str] = "fedtgp"
    title: ClassVar[str] = "FedTGP"
    paper: ClassVar[str] = (
        "Zhang et al., FedTGP: Trainable Global Prototypes with Adaptive-Margin-Enhanced Contrastive Learning for Data "
        "and Model Heterogeneity in Federated Learning, AAAI 2024"
    )
    venue: ClassVar[str] = "Zhang et al., AAAI 2024"
    down: ClassVar[str] = "a prototype of every class"

    pull: float = setting(10.0, "weight of the distance from the prototype (lambda)", ge=0, paper="not read; code: 10")
    margin: float = setting(100.0, "the largest margin (tau)", gt=0, paper="not read; code: 100")
    margin_rule: Literal["paper", "release"] = setting(
        "paper",
        "the distance that the margin is: the largest between two classes, or the largest to the nearest class",
        paper="paper; code: release",
    )
    server_epochs: int = setting(100, "epochs of the server's training (S)", ge=1, le=MOST, paper="not read; code: 100")
    server_learning_rate: float = setting(
        0.01, "learning rate of the server's training", gt=0, paper="not read; code: 0.01"
    )
    server_batch_size: int = setting(
        10, "batch size of the server's training", ge=1, le=MOST, paper="not read; code: 10"
    )

    def server_state(self, task: Task) -> State:
        """The weights that prototypes are made from, and whether they have learned anything yet."""
        width = task.common_width()
        made = nn.ModuleDict(
            {"embedding": nn.Embedding(task.classes, width), "0": nn.Linear(width, width), "2": nn.Linear(width, width)}
        )
        return {**Networks({_NAME: made}).state(), "trained": torch.zeros(1, dtype=torch.uint8)}

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        """All prototypes, once there are any."""
        made = _prototypes(state)
        rows = len(made) if bool(state["trained"]) else 0
        return Payload({"values": made[:rows], "labels": torch.arange(rows, dtype=torch.int32)})

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        """The mean representation of each of the client's classes, and its label."""
        return Payload(class_means(collected))

    def check(self, upload: Upload, state: State, task: Task) -> None:
        """Refuse tensors that are no class-averaged representations."""
        check_class_means(upload, task.common_width(), task.classes, state[f"{_NAME}.0.weight"].dtype)

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """Train the prototypes on what was sent, by plain gradient descent."""
        means = torch.cat([upload.payload.tensors["means"] for upload in uploads])
        labels = torch.cat([upload.payload.tensors["labels"] for upload in uploads]).long()
        margin = self._margin(means, labels)
        weights = {name: tensor for name, tensor in state.items() if name.startswith(_NAME)}
        keys = [draws.fold(round.key, "order", epoch) for epoch in range(self.server_epochs)]
        for order in draws.permutation(torch.tensor(keys), len(labels)):
            weights = self._epoch(weights, means[order], labels[order], margin)
        return {**weights, "trained": torch.ones(1, dtype=torch.uint8)}

    @counted_once
    def _epoch(self, weights: State, means: Tensor, labels: Tensor, margin: float) -> State:
        size = self.server_batch_size
        for sent, classes in zip(torch.split(means, size), torch.split(labels, size), strict=True):
            weights = self._step(weights, sent, classes, margin)
        return weights

    @counted_once
    def _step(self, weights: State, means: Tensor, labels: Tensor, margin: float) -> State:
        with torch.enable_grad():
            learning = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
            apart = distances(means, _prototypes(learning))
            right = F.one_hot(labels, apart.shape[1]).to(apart.dtype)
            loss = F.cross_entropy(-(apart + margin * right), labels)
            gradients = torch.autograd.grad(loss, list(learning.values()))
        steps = zip(learning.items(), gradients, strict=True)
        return {name: tensor.detach() - self.server_learning_rate * gradient for (name, tensor), gradient in steps}

    def _margin(self, means: Tensor, labels: Tensor) -> float:
        """The largest distance between two classes, or of one from the nearest; at most the margin that is set."""
        present = torch.unique(labels)
        if len(present) < 2:
            return self.margin
        centres = torch.stack([means[labels == label].mean(0) for label in present])
        apart = distances(centres, centres)
        if self.margin_rule == "release":
            apart = apart.masked_fill(torch.eye(len(present), dtype=torch.bool), torch.inf).amin(1)
        return min(float(apart.max()), self.margin)


def _prototypes(weights: State) -> Tensor:
    """All prototypes, of shape [classes, width]: an embedding of each class, through two layers."""
    embedding, first, first_bias, second, second_bias = (weights[f"{_NAME}.{part}"] for part in _PARTS)
    return (embedding @ first.T + first_bias).relu() @ second.T + second_bias
