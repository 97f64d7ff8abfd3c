"""LG-FedAvg: local bodies, one global head."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from potluck.algorithms.base import Algorithm, Need
from potluck.algorithms.parts.heads import common_head
from potluck.contract import Task


class LGFedAvg(Algorithm):
    """Think locally, act globally: every client keeps its own body, and the heads are averaged.

    A client takes the global head, trains body and head together, and sends its head; the server averages heads,
    weighted by training samples (Algorithm 1, over the round's cohort). A client predicts with the head that it
    trained. The released code takes the plain mean, and starts from a model that FedAvg has trained; here clients
    start from their own weights.
    """

    name: ClassVar[str] = "lg-fedavg"
    title: ClassVar[str] = "LG-FedAvg"
    paper: ClassVar[str] = (
        "Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global Representations, "
        "NeurIPS 2019 workshop"
    )
    venue: ClassVar[str] = "Liang et al., NeurIPS-W 2019"
    down: ClassVar[str] = "the head"
    up: ClassVar[str] = "the head"
    needs: ClassVar[frozenset[Need]] = frozenset({"equal width"})
    shared: ClassVar[tuple[str, ...]] = ("head",)

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        """The global head."""
        return common_head(task)
