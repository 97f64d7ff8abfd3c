"""FedGH: the server trains a global header on the clients' class-averaged representations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck.algorithms.base import Algorithm, Need
from potluck.algorithms.parts.class_means import check_class_means, class_means, class_sums
from potluck.algorithms.parts.heads import common_head
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload
from potluck.contract import Batch, Networks, Received, Round, Task
from potluck.metrics.server import counted_once
from potluck.payload import Payload
from potluck.settings import MOST


class FedGH(Algorithm):
    """A generalized global header for different feature extractors.

    A client replaces its header by the global one (equation 5), trains its whole model (6), and sends the mean
    representation of each of its classes, over all its training samples without augmentation (3), with the class's
    label. The server trains the global header on these pairs by plain gradient descent (4), in the order of clients and
    labels: one step for each pair, or one step for each client on all of its pairs. A client predicts with the header
    that it trained.

    The run's momentum, weight decay, clip_norm and schedule do not apply to the server's steps. Their rate,
    ``header_learning_rate``, is the setting to tune: it matters here, though the paper's Figure 5 finds no influence.
    A class that no client of a round has gets no example in that round, and its logit falls. (In the released code the
    server's optimiser holds another network, so the header keeps its initial weights.)
    """

    name: ClassVar[str] = "fedgh"
    title: ClassVar[str] = "FedGH"
    paper: ClassVar[str] = (
        "Yi et al., FedGH: Heterogeneous Federated Learning with Generalized Global Header, ACM Multimedia 2023"
    )
    venue: ClassVar[str] = "Yi et al., ACM MM 2023"
    down: ClassVar[str] = "the header"
    up: ClassVar[str] = "a mean representation per class"
    needs: ClassVar[frozenset[Need]] = frozenset({"equal width"})
    shared: ClassVar[tuple[str, ...]] = ("head",)
    collects: ClassVar[Literal["train"]] = "train"

    header_learning_rate: float = setting(
        0.01,
        "learning rate of the server's training",
        gt=0,
        paper="0.01; 0.001 to 1 in its Figure 5",
        values=(0.001, 1),
    )
    header_passes: int = setting(1, "how often the server goes over what it received", ge=1, le=MOST, paper="1")
    header_step: Literal["representation", "client"] = setting(
        "representation",
        "what the server takes a step on: one mean representation, or all of a client",
        paper='representation; client is called "necessary" for many clients or classes, not said for which tables',
    )

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        """The global header."""
        return common_head(task)

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        """Representations, summed by class."""
        return class_sums(net.body(batch.x), batch, net.task.classes)

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        """The mean representation of each of the client's classes, and its label."""
        return Payload(class_means(collected))

    def check(self, upload: Upload, state: State, task: Task) -> None:
        """Refuse tensors that are no class-averaged representations."""
        check_class_means(upload, task.common_width(), task.classes, state["head.weight"].dtype)

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """Train the global header (equation 4)."""
        weight, bias = state["head.weight"], state["head.bias"]
        for _ in range(self.header_passes):
            for upload in uploads:
                means, labels = upload.payload.tensors["means"], upload.payload.tensors["labels"].long()
                weight, bias = self._learned(weight, bias, means, labels)
        return {"head.weight": weight, "head.bias": bias}

    @counted_once
    def _learned(self, weight: Tensor, bias: Tensor, means: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The header, after what one client sent."""
        size = 1 if self.header_step == "representation" else len(labels)
        for inputs, classes in zip(torch.split(means, size), torch.split(labels, size), strict=True):
            # The gradient of cross-entropy by the logits.
            error = torch.softmax(inputs @ weight.T + bias, 1) - F.one_hot(classes, len(bias))
            weight = weight - self.header_learning_rate * error.T @ inputs / len(classes)
            bias = bias - self.header_learning_rate * error.mean(0)
        return weight, bias
