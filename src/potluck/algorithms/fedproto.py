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

    A client's loss is ``CE + pull * ||r - prototype_y||^2 / width`` (equation 7), r the representation of a sample, and
    without the second term for a class that has no prototype. After training the client sends the mean representation
    of each of its classes over all its training samples (3), and how many there are. The server's prototype of a class
    is the mean of these, weighted by their numbers (6). A class that no client of a round has keeps its prototype.

    Differences from the paper: equation 6 also divides by the number of clients that have the class, which would shrink
    its prototype although the weights already sum to 1. Equation 8 sums, over classes, the distance between the mean
    representation of the batch's samples of a class and the prototype; here, as in the released code, it is the squared
    distance of each sample, so that values of lambda mean what they mean there. Algorithm 1 takes the uploaded means
    from batches during training.

    ``inference`` says what predicts: the model's own head, or the nearest prototype of those received (equation 4).
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
        return dense_table(payload, task.classes, task.common_width())

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
        """Refuse tensors that are no class-averaged representations."""
        check_class_means(upload, task.common_width(), task.classes, state["prototypes"].dtype, with_counts=True)

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """The mean of each class, weighted by samples; classes that no client sent keep their prototypes."""
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
