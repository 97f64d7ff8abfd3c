"""FedAvg: one model for all, averaged by the server."""

from __future__ import annotations

from typing import ClassVar

from potluck.algorithms.base import Algorithm, Need


class FedAvg(Algorithm):
    """Federated averaging: the whole model travels down, is trained by each client, and is averaged.

    It needs one architecture on every client, and starts from the first client's model as it was given. The weights of
    the average are the clients' shares of the training samples of the round's cohort (Algorithm 1 as printed divides by
    the samples of all clients; its later versions on arXiv by those of the cohort). Batch-norm statistics are averaged
    with the weights, and their integer counters stay with the client. A client predicts with the model it holds after
    its local training, not with the average.
    """

    name: ClassVar[str] = "fedavg"
    title: ClassVar[str] = "FedAvg"
    paper: ClassVar[str] = (
        "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017"
    )
    venue: ClassVar[str] = "McMahan et al., AISTATS 2017"
    down: ClassVar[str] = "the model"
    up: ClassVar[str] = "the model"
    needs: ClassVar[frozenset[Need]] = frozenset({"equal models"})
    shared: ClassVar[tuple[str, ...]] = ("body", "head")
