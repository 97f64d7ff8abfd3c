"""FedKD: a large mentor and a small mentee that teach each other; the mentee travels as thin matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from pydantic import PrivateAttr
from torch import Tensor, nn

from potluck.algorithms.parts.low_rank import Shortener, restored, shortened
from potluck.algorithms.parts.mutual import MutualLearning, divergence
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload
from potluck.contract import Batch, Networks, Received, Round, Task
from potluck.models import representation_width
from potluck.payload import Payload


class FedKD(MutualLearning):
    """Communication-efficient federated learning by adaptive mutual distillation.

    The client's own model is the mentor t, the shared small one the mentee s. Each learns by its cross-entropy, the
    other's predictions and the other's representation (through a projection W that the client keeps), the latter two
    divided by both cross-entropies, so that models that know little teach little:
    ``CE_t + (KL(s || t) + MSE(r_t, W r_s)) / (CE_t + CE_s)``, and for the mentee with t and s exchanged.

    A client sends what training added to the mentee, the server adds the mean of this to its mentee and sends that,
    both as low-rank parts that hold a share of the energy which grows over the rounds. Parts have at least rank 1, and
    are never longer than what they stand for. The mentor predicts.
    """

    name: ClassVar[str] = "fedkd"
    title: ClassVar[str] = "FedKD"
    paper: ClassVar[str] = (
        "Wu et al., Communication-efficient Federated Learning via Knowledge Distillation, Nature Communications 2022"
    )
    venue: ClassVar[str] = "Wu et al., Nature Comm. 2022"
    down: ClassVar[str] = "the mentee in low-rank parts"
    up: ClassVar[str] = "its update in low-rank parts"
    compresses: ClassVar[bool] = True

    energy_start: float = setting(0.95, "share of the energy that is kept at first", gt=0, le=1, paper="0.95")
    energy_end: float = setting(0.98, "share of the energy that is kept in the last round", gt=0, le=1, paper="0.98")

    _shortener: Shortener = PrivateAttr(default_factory=Shortener)

    def networks(self, model: nn.Module, task: Task) -> dict[str, nn.Module]:
        """Mentor, mentee, and the projection of the mentee's representation to the mentor's."""
        held = super().networks(model, task)
        widths = representation_width(held["small_head"]), representation_width(held["head"])
        return {**held, "projection": nn.Linear(*widths, bias=False)}

    @property
    def learned_beside(self) -> tuple[str, ...]:
        """The mentee and the projection."""
        return (*self.shared, "projection")

    def mutual_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """The losses of mentor and mentee, added."""
        own, small = net.body(batch.x), net.small_body(batch.x)
        mentor, mentee, seen = net.head(own), net.small_head(small), net.projection(small)
        mentor_loss, mentee_loss = batch.cross_entropy(mentor), batch.cross_entropy(mentee)
        for_mentor = divergence(mentee, mentor, batch) + batch.mean((own - seen.detach()).square().mean(1))
        for_mentee = divergence(mentor, mentee, batch) + batch.mean((own.detach() - seen).square().mean(1))
        # Who has a single class soon makes no mistake at all, and nothing can be divided by 0.
        least = torch.finfo(own.dtype).eps
        mentor_doubt = (mentor_loss + mentee_loss.detach()).clamp(min=least)
        mentee_doubt = (mentor_loss.detach() + mentee_loss).clamp(min=least)
        return mentor_loss + for_mentor / mentor_doubt + mentee_loss + for_mentee / mentee_doubt

    def _energy(self, round: Round) -> float:
        done = round.number / max(round.total, round.number, 1)
        return self.energy_start + done * (self.energy_end - self.energy_start)

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        """The mentee, shortened."""
        return Payload(self._shortener(state, self._energy(round)))

    def receive(self, payload: Payload, task: Task) -> Received:
        """The mentee, multiplied out."""
        payload.require_finite()
        return restored(payload.tensors)

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        """What training added to the mentee, shortened."""
        trained = net.travelling(*self.shared)
        update = {name: tensor - received[name] for name, tensor in trained.items()}
        return Payload(shortened(update, self._energy(round)), {"samples": samples})

    def check(self, upload: Upload, state: State, task: Task) -> None:
        """Refuse what is not an update of the mentee."""
        upload.payload.require_finite()
        Payload(restored(upload.payload.tensors, state)).require(state)
        _ = upload.samples

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """Add the mean of the updates, each client counting the same."""
        whole = [Upload(u.client, Payload(restored(u.payload.tensors), u.payload.meta)) for u in uploads]
        updates = super().aggregate(state, whole, round, task)
        return {name: tensor + updates[name] for name, tensor in state.items()}
