"""FedProto: clients agree on one prototype for each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from potluck.algorithms.base import Algorithm, Need
from potluck.algorithms.parts.class_means import check_class_means, class_means, class_sums
from potluck.algorithms.parts.class_table import (
    dense_table,
    nearest_prototype,
    pull_to_prototypes,
    seen_classes,
    table_payload,
)
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload
from potluck.contract import Batch, Networks, Received, Round, Task
from potluck.payload import Payload


class FedProto(Algorithm):
    """Federated prototype learning.

    A client's loss is ``CE + pull * ||r - prototype_y||^2 / width``, r the representation; a class without a prototype
    has no second part. After training it sends the mean representation of each of its classes, over all its training
    samples, and how many there are. The server's prototype of a class is the mean of these, weighted by their numbers;
    that of a class which nobody of a round has stays as it was.

    ``inference`` names what predicts: the model's own head, or the nearest prototype of those that were received.
    """

    name: ClassVar[str] = "fedproto"
    title: ClassVar[str] = "FedProto"
    paper: ClassVar[str] = "Tan et al., FedProto: Federated Prototype Learning across Heterogeneous Clients, AAAI 2022"
    venue: ClassVar[str] = "Tan et al., AAAI 2022"
    down: ClassVar[str] = "a prototype per class"
    up: ClassVar[str] = "a mean representation per class"
    needs: ClassVar[frozenset[Need]] = frozenset({"equal width"})
    collects: ClassVar[Literal["train"]] = "train"

    pull: float = setting(
        1.0,
        "weight of the distance from the prototype (lambda)",
        ge=0,
        paper="1 (MNIST, FEMNIST), 0.1 (CIFAR-10)",
        values=(0.1,),
    )
    inference: Literal["head", "prototype"] = setting("head", "what predicts", paper="prototype")

    def server_state(self, task: Task) -> State:
        """The prototypes, of which none is known yet; and which client has which class."""
        return {
            "prototypes": torch.zeros(task.classes, task.common_width()),
            "known": torch.zeros(task.classes, dtype=torch.uint8),
            "seen": torch.zeros(task.clients, task.classes, dtype=torch.uint8),
        }

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        """The prototypes of the client's classes."""
        return table_payload(state["prototypes"], state["known"], state["seen"][client])

    def receive(self, payload: Payload, task: Task) -> Received:
        """The prototypes, and for which classes there are any."""
        return dense_table(payload, task.classes)

    def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Cross-entropy, and the distance from the prototypes."""
        representation = net.body(batch.x)
        pull = pull_to_prototypes(representation, batch, received)
        return batch.cross_entropy(net.head(representation)) + self.pull * pull

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        """Representations, summed by class."""
        return class_sums(net.body(batch.x), batch, net.task.classes)

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        """The mean representation of each of the client's classes, its label, and how many samples stand behind it."""
        return Payload(class_means(collected, with_counts=True))

    def check(self, upload: Upload, state: State, task: Task) -> None:
        """Refuse what are no class-averaged representations."""
        check_class_means(upload, task.common_width(), task.classes, state["prototypes"].dtype, with_counts=True)

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """The mean of each class, weighted by samples; classes that nobody sent stay."""
        labels, counts = (torch.cat([u.payload.tensors[name] for u in uploads]).long() for name in ("labels", "counts"))
        totals = torch.zeros(task.classes, dtype=torch.int64).index_add(0, labels, counts)
        # Shares first: a sum over all samples may be more than a number can hold.
        sent = torch.cat([upload.payload.tensors["means"] for upload in uploads])
        shares = counts.to(sent.dtype) / totals[labels]
        means = torch.zeros_like(state["prototypes"]).index_add(0, labels, sent * shares.unsqueeze(1))
        there = totals > 0
        return {
            "prototypes": torch.where(there.unsqueeze(1), means, state["prototypes"]),
            "known": torch.where(there, 1, state["known"]).to(torch.uint8),
            "seen": seen_classes(state["seen"], uploads),
        }

    def predict(self, net: Networks, x: Tensor, received: Received) -> Tensor:
        """The head, or the nearest prototype."""
        representation = net.body(x)
        logits = net.head(representation)
        return logits if self.inference == "head" else nearest_prototype(representation, received, logits)
