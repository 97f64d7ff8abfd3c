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


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("pfedes", {"training": "simultaneous"}),
        ("fedgh", {"header_step": "client", "header_passes": 2}),
        ("pfedafm", {"training": "end-to-end", "mixing": "free"}),
        ("pfedafm", {"predict_with": "small", "aggregation": "last"}),
        ("fedclassavg", {"contrast": "release"}),
        ("fedclassavg", {"contrast": "off", "share": "all"}),
        ("fedclassavg", {"averaging": False, "rho": 0}),
        ("fedkd", {"energy_start": 0.2, "energy_end": 0.3}),
        ("fedproto", {"inference": "prototype"}),
        ("fedtgp", {"inference": "prototype", "server_epochs": 2}),
    ],
)
def test_every_variant(name: str, settings: dict[str, object]) -> None:
    check_algorithm(algorithm(name, settings))


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
    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        return Payload(net.travelling("extractor"), {"samples": samples, "when": (1, 2)})  # type: ignore[dict-item]


class ClassSums(Standalone):
    """Collects what FedProto does, in one way or another."""

    collects: ClassVar = "train"

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        seen = torch.nn.functional.one_hot(batch.y, net.task.classes).to(batch.weight.dtype) * batch.weight[:, None]
        return {"sums": seen.T @ net.body(batch.x), "counts": seen.sum(0)}


def test_class_sums_conform() -> None:
    check_algorithm(ClassSums())


class CollectsPadding(ClassSums):
    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        return {"sum": net.body(batch.x).sum(0)}


class CollectsMeans(ClassSums):
    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        return {"mean": batch.mean(net.body(batch.x).sum(1))}


class CollectsByRound(ClassSums):
    number: ClassVar[int] = 0

    def phases(self, round: Round) -> Sequence[Phase]:
        type(self).number = round.number
        return super().phases(round)

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        return {"sums": self.number * super().collect(net, batch, received)["sums"]}


class RemembersWhatItReceived(FedAvg):
    """Clients start from the mean of what they received now and the last time; the server counts rounds."""

    remembers: ClassVar = True

    def server_state(self, task: Task) -> State:
        return {**super().server_state(task), "rounds": torch.zeros(())}

    def receive_again(self, payload: Payload, last: Received, task: Task) -> Received:
        return {name: (tensor + last[name]) / 2 for name, tensor in self.receive(payload, task).items()}

    def check(self, upload: Upload, state: State, task: Task) -> None:
        super().check(upload, {name: tensor for name, tensor in state.items() if name != "rounds"}, task)

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        return {**super().aggregate(state, uploads, round, task), "rounds": state["rounds"] + 1}


def test_one_that_remembers_conforms() -> None:
    check_algorithm(RemembersWhatItReceived())


class ReceivesOtherwiseAgain(RemembersWhatItReceived):
    def receive_again(self, payload: Payload, last: Received, task: Task) -> Received:
        return {**self.receive(payload, task), "more": torch.zeros(1)}


class ChangesWhatItRemembers(RemembersWhatItReceived):
    def receive_again(self, payload: Payload, last: Received, task: Task) -> Received:
        for tensor in last.values():
            tensor.mul_(0.5)
        return super().receive_again(payload, last, task)


class ReceivesAnythingTwice(RemembersWhatItReceived):
    number: ClassVar[int] = 0

    def receive_again(self, payload: Payload, last: Received, task: Task) -> Received:
        type(self).number += 1
        received = super().receive_again(payload, last, task)
        return {name: tensor + self.number for name, tensor in received.items()}


class ChangesWhatArrives(PFedES):
    def receive(self, payload: Payload, task: Task) -> Received:
        return {name: tensor.mul_(0.5) for name, tensor in super().receive(payload, task).items()}


class ChecksNothing(PFedES):
    def check(self, upload: Upload, state: State, task: Task) -> None:
        pass


class KnowsTheRound(Standalone):
    def phases(self, round: Round) -> Sequence[Phase]:
        return (Phase(train=("body", "head"), loss=lambda n, b, _: round.number * b.cross_entropy(n(b.x))),)


BROKEN = {
    CollectsPadding: "what it collects sees samples of weight 0",
    CollectsMeans: "does not add up",
    ChecksNothing: "check lets 'extractor.0.weight' with another shape pass",
    CollectsByRound: "what it collects depends on the round",
    KnowsTheRound: "a loss depends on the round",
    TakenName: "names of settings that every run has",
    Undescribed: "no description",
    BranchesOnValues: "does not run under vmap",
    ForgetsTheWeights: "sees samples of weight 0",
    MixesSamples: "sees samples of weight 0",
    TouchesTheFrozen: "changes a network that this phase freezes",
    TrainsWhatIsNotThere: "trains tail, and clients hold body, head alone",
    LearnsWhilePredicting: "predict gives another result the second time",
    ReceivesUnevenly: "use masks",
    ReceivesOtherwiseAgain: "use masks",
    ChangesWhatItRemembers: "receive_again changes what the client remembers",
    ReceivesAnythingTwice: "receive_again gives another result the second time",
    ChangesWhatArrives: "receive changes what arrived",
    AggregatesInPlace: "in place",
    LosesItsMetadata: "metadata",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_what_is_broken_is_noticed(kind: type[Standalone]) -> None:
    with pytest.raises(ConformanceError, match=BROKEN[kind]):
        check_algorithm(kind())
