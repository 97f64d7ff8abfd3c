"""FD: clients learn from the mean soft outputs of the others, class by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from potluck.algorithms.base import Algorithm
from potluck.algorithms.parts.class_means import check_class_means, class_means, class_sums
from potluck.algorithms.parts.class_table import dense_table, seen_classes, table_payload
from potluck.algorithms.parts.probabilities import check_probabilities
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload
from potluck.contract import Batch, Networks, Received, Round, Task
from potluck.payload import Payload


class FD(Algorithm):
    """Federated distillation.

    A client sends, for each of its classes, the mean softmax output of its trained model over its samples of the
    class. Whoever has the class learns from the mean of what the others sent, its own left out:
    ``CE + distillation * H(mean of the others, softmax(z))``, H the cross-entropy. What was sent for a class counts
    until it is sent again, by whomever; where nobody else has sent it, the second part is left out.
    """

    name: ClassVar[str] = "fd"
    title: ClassVar[str] = "FD"
    paper: ClassVar[str] = (
        "Jeong et al., Communication-Efficient On-Device Machine Learning: Federated Distillation and Augmentation "
        "under Non-IID Private Data, NeurIPS 2018 workshop"
    )
    venue: ClassVar[str] = "Jeong et al., NeurIPS-W 2018"
    down: ClassVar[str] = "a mean output per class"
    up: ClassVar[str] = "a mean output per class"
    collects: ClassVar[Literal["train"]] = "train"

    distillation: float = setting(1.0, "weight of the others' outputs in the loss", ge=0)

    def server_state(self, task: Task) -> State:
        """What was last sent for each class, and by whom; and which client has which class."""
        return {
            "clients": torch.zeros(0, dtype=torch.int32),
            "labels": torch.zeros(0, dtype=torch.int32),
            "means": torch.zeros(0, task.classes),
            "seen": torch.zeros(task.clients, task.classes, dtype=torch.uint8),
        }

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        """For each of the client's classes the mean of what the others sent."""
        others = state["clients"] != client
        means, labels = state["means"][others], state["labels"][others].long()
        classes = means.shape[1]
        counts = torch.bincount(labels, minlength=classes)
        sums = means.new_zeros(classes, classes).index_add(0, labels, means)
        return table_payload(sums / counts.clamp(min=1).unsqueeze(1), counts, state["seen"][client])

    def receive(self, payload: Payload, task: Task) -> Received:
        """The others' mean outputs, and for which classes there are any."""
        return dense_table(payload, task.classes)

    def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Cross-entropy with the labels, and with the others' mean outputs."""
        logits = net(batch.x)
        soft = -(received["values"][batch.y] * logits.log_softmax(1)).sum(1)
        return batch.cross_entropy(logits) + self.distillation * batch.mean(soft * received["known"][batch.y])

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        """Outputs, summed by class."""
        return class_sums(net(batch.x).softmax(1), batch, net.task.classes)

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        """The mean output of each of the client's classes, and its label."""
        return Payload(class_means(collected))

    def check(self, upload: Upload, state: State, task: Task) -> None:
        """Refuse what are no mean outputs."""
        check_class_means(upload, task.classes, task.classes, state["means"].dtype)
        check_probabilities(upload.client, "means", upload.payload.tensors["means"])

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """Keep what was sent for each class, in place of what was sent for it before."""
        labels = torch.cat([upload.payload.tensors["labels"] for upload in uploads])
        senders = [torch.full_like(u.payload.tensors["labels"], u.client) for u in uploads]
        kept = ~torch.isin(state["labels"], labels)
        return {
            "clients": torch.cat([state["clients"][kept], *senders]),
            "labels": torch.cat([state["labels"][kept], labels]),
            "means": torch.cat([state["means"][kept], *(upload.payload.tensors["means"] for upload in uploads)]),
            "seen": seen_classes(state["seen"], uploads),
        }
