"""Small settings, clients, networks and an algorithm without a paper, to try the engines on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms import Algorithm, State
from potluck.client import Client
from potluck.contract import Batch, Networks, Phase, Received, Round, Task
from potluck.data.examples import Examples
from potluck.data.transform import Transform
from potluck.engines import Job, Outcome, Setting
from potluck.engines.precision import Precision
from potluck.engines.worker import Worker
from potluck.payload import Payload
from potluck.training import Training

CLASSES = 3
ROWS, IMAGES = (4,), (2, 6, 6)


def cross_entropy(net: Networks, batch: Batch, received: Received) -> Tensor:
    return batch.cross_entropy(net(batch.x))


class MadeUp(Algorithm):
    """Does what its settings say."""

    name: ClassVar[str] = "made-up"
    title: ClassVar[str] = "Made up"
    paper: ClassVar[str] = "none"

    before: Any = ()
    """Phases of adapting."""
    then: Any = (Phase(train=("body", "head"), loss=cross_entropy),)
    """Phases of the round."""
    sent: tuple[str, ...] = ()
    """Networks that are shared."""
    added: Any = None
    """Makes networks beside body and head."""

    @property
    def shared(self) -> tuple[str, ...]:
        return self.sent

    def networks(self, model: nn.Module, task: Task) -> dict[str, nn.Module]:
        more: dict[str, nn.Module] = self.added() if self.added else {}
        return {**super().networks(model, task), **more}

    def adapt(self, round: Round) -> Sequence[Phase]:
        phases: Sequence[Phase] = self.before
        return phases

    def phases(self, round: Round) -> Sequence[Phase]:
        phases: Sequence[Phase] = self.then
        return phases


class Mean(MadeUp):
    """Sends the sum of all representations of its own samples."""

    collects: ClassVar[Literal["train", "holdout", "public"] | None] = "train"

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        return {"sum": (net.body(batch.x) * batch.weight[:, None]).sum(0), "count": batch.weight.sum()}

    def upload(self, net: Networks, collected: Any, received: Received, samples: int, round: Round) -> Payload:
        return Payload(collected, {"samples": samples})


def samples(count: int, shape: tuple[int, ...] = ROWS, key: int = 0) -> tuple[Tensor, Tensor]:
    """Numbers from -1 to 1 in float64, and labels of all classes in turn."""
    size = count * torch.Size(shape).numel()
    x = draws.uniform(draws.spread(draws.fold(key, "samples"), torch.arange(size))).double() * 2 - 1
    return x.reshape(count, *shape), torch.arange(count) % CLASSES


def model(*layers: nn.Module, key: int = 0) -> nn.Module:
    """The layers, with weights from ``key`` wherever they can be made anew."""
    with draws.initial_weights(key):
        for layer in layers:
            again: Callable[[], None] | None = getattr(layer, "reset_parameters", None)
            if again is not None:
                again()
    return nn.Sequential(*layers).double()


def plain_model(key: int = 0) -> nn.Module:
    return model(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES), key=key)


def full_model(key: int = 0, width: int = 6) -> nn.Module:
    """With batch norm and dropout on both sides of the cut's last layer but one."""
    return model(
        nn.Linear(4, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Dropout(0.3), nn.Linear(width, 5), nn.BatchNorm1d(5),
        nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, CLASSES), key=key,
    )  # fmt: skip


def image_model(key: int = 0) -> nn.Module:
    layers = (nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Tanh(), nn.Dropout2d(0.3), nn.Flatten())
    return model(*layers, nn.Linear(48, CLASSES), key=key)


def member(net: nn.Module, count: int = 10, shape: tuple[int, ...] = ROWS, number: int = 0, **data: Any) -> Client:
    """A client as an engine sees it."""
    data = {"train": samples(count, shape, number), "test": samples(7, shape, 100 + number), **data}
    return Client(net, **data).numbered(number)


def setting(
    algorithm: Algorithm,
    shape: tuple[int, ...] = ROWS,
    *,
    seed: int = 0,
    augmentation: str = "none",
    public: tuple[Tensor, Tensor] | None = None,
    dtype: torch.dtype = torch.float64,
    **training: Any,
) -> Setting:
    """Plain gradient descent in float64, unless told otherwise."""
    plain = {"momentum": 0.0, "weight_decay": 0.0, "clip_norm": None, "batch_size": 4, "learning_rate": 0.1}
    return Setting(
        algorithm=algorithm,
        task=Task(shape, CLASSES),
        training=Training(**{**plain, **training}),
        transform=Transform(augmentation=augmentation),
        seed=seed,
        device=torch.device("cpu"),
        precision=Precision("float64" if dtype == torch.float64 else "float32", torch.device("cpu")),
        public=Examples(*public) if public else None,
    )


def job(client: Client, held: State | None = None, payload: Payload | None = None) -> Job:
    return Job(client, lambda: held, payload or Payload())


def train(
    given: Setting, client: Client, held: State | None = None, payload: Payload | None = None, number: int = 1
) -> Outcome:
    """One client's round, on a worker of its own."""
    return Worker(given).train(Round(number, 10), job(client, held, payload))


def initial(given: Setting, client: Client) -> State:
    """What a client holds before it has trained."""
    return Networks(Worker(given).networks(job(client))).state()


def changed(before: State, after: State, prefix: str = "") -> set[str]:
    """Which tensors are no longer the same, to the bit."""
    assert before.keys() == after.keys()
    return {path for path in before if path.startswith(prefix) and not torch.equal(before[path], after[path])}


def spy(seen: list[Any], look: Callable[[Networks, Batch, Received], Any]) -> Callable[..., Tensor]:
    """A loss that notes what it sees; under the counter of operations, whose batches are all zero, it does not."""

    def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
        if bool(batch.x.any()):
            seen.append(look(net, batch, received))
        return cross_entropy(net, batch, received)

    return loss
