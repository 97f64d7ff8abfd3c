"""The contract of an algorithm: both sides of it, and nothing of devices, files, processes or the network.

The defaults do what FedAvg does with the networks named ``shared``, so that a method states only what is its own.
An algorithm is also its validated settings: its fields are what a user can set, each with a range and a description.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor, nn

from potluck.algorithms.uploads import State, Upload, mean
from potluck.contract import Batch, Networks, Phase, Received, Round, Task
from potluck.errors import ModelError
from potluck.models.split import split
from potluck.payload import Payload
from potluck.settings import Settings

if TYPE_CHECKING:
    # Algorithms are ordinary models; what the class of their classes adds are messages.
    from pydantic._internal._model_construction import ModelMetaclass as Kind
else:
    from potluck.algorithms.declaring import Kind

Need = Literal["equal models", "equal width", "public data"]


class Algorithm(Settings, metaclass=Kind):
    """A federated method. Subclass it, state what is different, and every engine runs it."""

    name: ClassVar[str]
    """What a user types."""
    title: ClassVar[str]
    """How its paper spells it; by default the name."""
    paper: ClassVar[str] = ""
    """Authors, title, venue and year."""
    venue: ClassVar[str] = ""
    """Authors, venue and year in a few words."""
    down: ClassVar[str] = "nothing"
    """What the server sends to a client, in words."""
    up: ClassVar[str] = "nothing"
    """What a client sends to the server, in words."""
    compresses: ClassVar[bool] = False
    """Whether how long that is depends on what was learned, so that only the most is known before."""
    collects: ClassVar[Literal["train", "holdout", "public"] | None] = None
    """The data over which :meth:`collect` is summed after local training, if any."""
    enrolls: ClassVar[bool] = False
    """Whether every client takes part in a round 0 before the first."""
    remembers: ClassVar[bool] = False
    """Whether a client keeps what it received in the round in which it last took part, for :meth:`receive_again`."""
    upload_meta: ClassVar[frozenset[str]] = frozenset({"samples"})
    """The metadata that an upload may have: an upload with any other is refused."""

    @property
    def needs(self) -> frozenset[Need]:
        """What it cannot do without."""
        return frozenset()

    @property
    def shared(self) -> tuple[str, ...]:
        """The networks whose weights travel: by default broadcast, received, uploaded and averaged."""
        return ()

    @property
    def holdout_share(self) -> float:
        """The share of its training samples that each client sets aside as ``holdout`` data."""
        return 0.0

    def check_task(self, task: Task) -> None:
        """Refuse a task that does not fit the settings, with a ``ConfigError`` that says what to change.

        Called before anything is made or trained. By default every task fits.
        """

    # ---- what each side holds -------------------------------------------------------------------------------------

    def networks(self, model: nn.Module, task: Task) -> dict[str, nn.Module]:
        """What each client holds: by default its own model, split into ``body`` and ``head``."""
        return split(model, task.shape)

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        """The networks whose weights the server starts from: by default the shared ones of the common model."""
        if not self.shared:
            return {}
        held = self.networks(task.common_model(), task)
        missing = [name for name in self.shared if name not in held]
        if missing:
            raise ModelError(f"it shares the network {missing[0]!r}, and clients hold {', '.join(held)}.")
        return {name: held[name] for name in self.shared}

    def server_state(self, task: Task) -> State:
        """What the server holds before round 1, made without any client's model."""
        return Networks(self.server_networks(task)).travelling(*self.shared)

    # ---- the client's side ----------------------------------------------------------------------------------------

    def receive(self, payload: Payload, task: Task) -> Received:
        """What arrived, as tensors for the losses and ``predict``; weights of shared networks in it are loaded.

        Tensors are dense and of one shape for every client: what is missing is a mask. Anything that is not finite is
        refused here, and weights that do not fit the networks when they are loaded.
        """
        payload.require_finite()
        return payload.tensors

    def receive_again(self, payload: Payload, last: Received, task: Task) -> Received:
        """As :meth:`receive`, at a client that remembers what it received when it last took part: ``last``.

        Asked where ``remembers`` is set, of clients that took part before; others are asked :meth:`receive`. It gives
        tensors of the same names, shapes and types as that, and changes nothing in ``last``.
        """
        return self.receive(payload, task)

    def adapt(self, round: Round) -> Sequence[Phase]:
        """Training right after receiving, before the phases of the round."""
        return ()

    def phases(self, round: Round) -> Sequence[Phase]:
        """The local training of a round: by default the client's own model, by cross-entropy."""
        return (Phase(train=("body", "head"), loss=self.cross_entropy),)

    def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Cross-entropy of the client's own model."""
        return batch.cross_entropy(net(batch.x))

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        """A statistic of one batch, summed over the data named by ``collects`` after local training.

        Like a loss, it gives samples of weight 0 no part in it, and depends on nothing else but what is given here: an
        engine may record it once and replay it.
        """
        return {}

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        """What a client sends after its local training."""
        if not self.shared:
            return Payload()
        return Payload(net.travelling(*self.shared), {"samples": samples})

    def predict(self, net: Networks, x: Tensor, received: Received) -> Tensor:
        """Logits of the client for ``x``.

        They depend on nothing else but what is given here: an engine may record them once and replay them.
        """
        return net(x)

    def observe(self, state: State) -> dict[str, float]:
        """Numbers worth a record of the ``state`` (``network.path``) that a client holds after its training.

        Records alone show them: no training, and no payload, may depend on it.
        """
        return {}

    # ---- the server's side ----------------------------------------------------------------------------------------

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        """What the server sends to ``client`` at the start of a round.

        It may depend on what ``state`` says of the client. A client that is only evaluated is sent it as well, and does
        not remember it. That a client has what it was sent is certain only when :meth:`aggregate` has its upload.
        """
        return Payload(state)

    def check(self, upload: Upload, state: State, task: Task) -> None:
        """Refuse an upload that is not what this algorithm's clients send.

        By default it must be like the server's state, and say of how many samples it is. That tensors are dense arrays
        of ordinary numbers, that there is no metadata but ``upload_meta``, and that ``samples`` is a number that can be
        was seen to before.
        """
        upload.payload.require(state)
        if self.shared:
            _ = upload.samples

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """The server's next state, from uploads in client order: by default their mean, weighted by samples."""
        return mean(uploads) if self.shared else state
