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

    A client sends, for each of its classes, the mean softmax output of its trained model over its training samples of
    the class. Its loss is ``CE + distillation * H(mean of the others, softmax(z))`` (Algorithm 1, line 5), H the
    cross-entropy: the target for a class is the mean of what the other clients sent for it (lines 12 and 15). The
    outputs of a class are used until a round in which a client sends that class again. Where no other client has sent
    the class, the second term is left out.

    Differences from Algorithm 1: line 6 adds up outputs while the model trains; here they are computed afterwards, with
    the trained model. Line 5 takes a step for each sample; here a batch is one step. Lines 12 and 15 assume that every
    device has every class; here the mean is over those that have it.
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
        return dense_table(payload, task.classes, task.classes)

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
        """Refuse tensors that are no mean outputs."""
        check_class_means(upload, task.classes, task.classes, state["means"].dtype)
        check_probabilities(upload.client, "means", upload.payload.tensors["means"])

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """Replace the outputs of each class that was sent; keep those of the other classes."""
        labels = torch.cat([upload.payload.tensors["labels"] for upload in uploads])
        senders = [torch.full_like(u.payload.tensors["labels"], u.client) for u in uploads]
        kept = ~torch.isin(state["labels"], labels)
        return {
            "clients": torch.cat([state["clients"][kept], *senders]),
            "labels": torch.cat([state["labels"][kept], labels]),
            "means": torch.cat([state["means"][kept], *(upload.payload.tensors["means"] for upload in uploads)]),
            "seen": seen_classes(state["seen"], uploads),
        }
