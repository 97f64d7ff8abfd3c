"""Every algorithm holds to the contract, and the check notices one that does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pytest
import torch
from pydantic import Field
from torch import Tensor

from potluck import Batch, Networks, Payload, Phase, Round, Task
from potluck.algorithms import State, Upload, algorithm, names
from potluck.algorithms.fedavg import FedAvg
from potluck.algorithms.pfedes import PFedES
from potluck.algorithms.standalone import Standalone
from potluck.contract import Received
from potluck.testing import ConformanceError, check_algorithm


@pytest.mark.parametrize("name", names())
def test_every_algorithm(name: str) -> None:
    check_algorithm(algorithm(name))


def test_pfedes_simultaneous() -> None:
    check_algorithm(algorithm("pfedes", {"training": "simultaneous"}))


class TakenName(Standalone):
    epochs: int = Field(3, description="clashes with the run's own")


class Undescribed(Standalone):
    tau: float = 1.0


class BranchesOnValues(Standalone):
    def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        loss = batch.cross_entropy(net(batch.x))
        return loss if loss > 0 else -loss


class ForgetsTheWeights(Standalone):
    def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        return torch.nn.functional.cross_entropy(net(batch.x), batch.y)


class MixesSamples(Standalone):
    def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        logits = net(batch.x)
        return batch.cross_entropy(logits - logits.mean(0))


class TouchesTheFrozen(PFedES):
    def model_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        with torch.no_grad():
            net.modules["extractor"].get_parameter("0.bias").add_(1)
        return super().model_loss(net, batch, received)


class TrainsWhatIsNotThere(Standalone):
    def phases(self, round: Round) -> Sequence[Phase]:
        return (Phase(train=("tail",), loss=self.cross_entropy),)


class LearnsWhilePredicting(Standalone):
    def predict(self, net: Networks, x: Tensor, received: Received) -> Tensor:
        net.modules["head"].get_parameter("bias").add_(1)
        return super().predict(net, x, received)


class ReceivesUnevenly(PFedES):
    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        return Payload({**state, "extra": torch.zeros(client)})


class AggregatesInPlace(FedAvg):
    needs: ClassVar = frozenset({"equal models"})

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        for tensor in state.values():
            tensor.add_(1)
        return super().aggregate(state, uploads, round, task)


class LosesItsMetadata(PFedES):
    def upload(self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int) -> Payload:
        return Payload(net.travelling("extractor"), {"samples": samples, "when": (1, 2)})  # type: ignore[dict-item]


BROKEN = {
    TakenName: "names of settings that every run has",
    Undescribed: "no description",
    BranchesOnValues: "does not run under vmap",
    ForgetsTheWeights: "sees samples of weight 0",
    MixesSamples: "sees samples of weight 0",
    TouchesTheFrozen: "changes a network that this phase freezes",
    TrainsWhatIsNotThere: "trains tail, and clients hold body, head alone",
    LearnsWhilePredicting: "predict",
    ReceivesUnevenly: "use masks",
    AggregatesInPlace: "in place",
    LosesItsMetadata: "metadata",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_what_is_broken_is_noticed(kind: type[Standalone]) -> None:
    with pytest.raises(ConformanceError, match=BROKEN[kind]):
        check_algorithm(kind())
