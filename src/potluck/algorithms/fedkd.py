"""FedKD: a large mentor and a small mentee that teach each other; updates of the mentee travel as thin matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms.parts.low_rank import restored, shortened
from potluck.algorithms.parts.mutual import MutualLearning, divergence
from potluck.algorithms.parts.updates import check_update, newest, numbered, updated, updates_in, whole
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload, mean
from potluck.contract import Batch, Group, Networks, Received, Round, Task
from potluck.errors import PayloadError
from potluck.models import representation_width
from potluck.payload import Payload

_UPDATES, _KNOWN = "updates", "known"
"""How many updates a mentee has had; how many of them the server knows each client's mentee to have had."""
_NAMES: WeakKeyDictionary[Task, dict[FedKD, frozenset[str]]] = WeakKeyDictionary()
"""The names of the mentee's weights, by task and settings."""


class FedKD(MutualLearning):
    """Communication-efficient federated learning by adaptive mutual distillation.

    The client's own model is the mentor t, the shared small one the mentee s. Each learns by its cross-entropy, the
    other's predictions and the other's representation (through a projection W that the client keeps), the latter two
    divided by both cross-entropies, so that models that know little teach little:
    ``CE_t + (KL(s || t) + MSE(r_t, W r_s)) / (CE_t + CE_s)``, and for the mentee with t and s exchanged.

    A client sends what training added to the mentee. The server sends the mean of this on, and adds to its mentee what
    it sends. In the next round a client adds the same to the mentee from which it started, not to what training made of
    it. Both ways an update travels as low-rank parts. They hold a share of the energy that grows over the rounds, have
    rank 1 or more, and are never longer than what they stand for. A client that missed rounds is sent their updates if
    all of them together are shorter than the mentee. Otherwise, and in its first round, it is sent the mentee.

    The mentor predicts.
    """

    name: ClassVar[str] = "fedkd"
    title: ClassVar[str] = "FedKD"
    paper: ClassVar[str] = (
        "Wu et al., Communication-efficient Federated Learning via Knowledge Distillation, Nature Communications 2022"
    )
    venue: ClassVar[str] = "Wu et al., Nature Comm. 2022"
    down: ClassVar[str] = "the mentee's update in low-rank parts"
    up: ClassVar[str] = "its update in low-rank parts"
    compresses: ClassVar[bool] = True
    remembers: ClassVar[bool] = True

    energy_start: float = setting(0.95, "share of the energy that is kept at first", gt=0, le=1, paper="0.95")
    energy_end: float = setting(0.98, "share of the energy that is kept in the last round", gt=0, le=1, paper="0.98")
    mentee_learning_rate: float | None = setting(
        None,
        "learning rate of mentee and projection (eta_S); the run's own by default",
        gt=0,
        paper="one beside the mentor's, of no value that we have seen; code: the mentor's",
    )

    def networks(self, model: nn.Module, task: Task) -> dict[str, nn.Module]:
        """Mentor, mentee, and the projection of the mentee's representation to the mentor's."""
        held = super().networks(model, task)
        widths = representation_width(held["small_head"]), representation_width(held["head"])
        return {**held, "projection": nn.Linear(*widths, bias=False)}

    def server_state(self, task: Task) -> State:
        """The mentee, how many updates it has had, and how many of them each client's has; -1 if it has no mentee."""
        return {
            **super().server_state(task),
            _UPDATES: torch.zeros((), dtype=torch.int64),
            _KNOWN: torch.full((task.clients,), -1),
        }

    @property
    def beside(self) -> Group:
        """The mentee and the projection."""
        return Group((*self.shared, "projection"), learning_rate=self.mentee_learning_rate)

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

    # ---- what travels ---------------------------------------------------------------------------------------------

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        """The updates that the client has missed, if the server still has all of them; otherwise the mentee."""
        had, latest = int(state[_KNOWN][client]), int(state[_UPDATES])
        updates = updates_in(state)
        missed = range(had + 1, latest + 1)
        tensors = _mentee(state)
        if had >= 0 and all(number in updates for number in missed):
            tensors = {name: tensor for n in missed for name, tensor in numbered(updates[n], n).items()}
        return Payload(tensors, {_UPDATES: latest})

    def receive(self, payload: Payload, task: Task) -> Received:
        """The mentee, and how many updates it has had."""
        payload.require_finite()
        if not _mentee(payload.tensors):
            raise PayloadError("no mentee arrived, and the client has none to which it could add updates.")
        payload.require_names(_names(self, task))
        return {**payload.tensors, _UPDATES: torch.tensor(_latest(payload))}

    def receive_again(self, payload: Payload, last: Received, task: Task) -> Received:
        """The mentee from which the client started when it last took part, plus the updates since; or the mentee.

        The client counts for itself: where the server did not get what it sent, it is sent an update that it had.
        """
        if _mentee(payload.tensors) or _UPDATES not in last:
            return self.receive(payload, task)
        payload.require_finite()
        updates = updates_in(payload.tensors)
        mentee, had, latest = _mentee(last), int(last[_UPDATES]), _latest(payload)
        missed = range(had + 1, latest + 1)
        if latest < had or not all(number in updates for number in missed):
            raise PayloadError(f"a mentee that has had {had} updates cannot have {latest} with those that arrived.")
        for number in missed:
            mentee = updated(mentee, whole(updates[number], mentee))
        return {**mentee, _UPDATES: torch.tensor(latest)}

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        """What training added to the mentee, shortened."""
        trained = net.travelling(*self.shared)
        update = {name: tensor - received[name] for name, tensor in trained.items()}
        return Payload(shortened(update, self._energy(round)), {"samples": samples})

    # ---- the server -----------------------------------------------------------------------------------------------

    def check(self, upload: Upload, state: State, task: Task) -> None:
        """Refuse what is not an update of the mentee. Its parts may still make up numbers that are not finite."""
        upload.payload.require_finite()
        check_update(upload.payload.tensors, _mentee(state))
        _ = upload.samples

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """Shorten the mean of the updates, each client counting the same, and add to the mentee what is sent of it."""
        mentee, latest = _mentee(state), int(state[_UPDATES])
        arrived = [replace(u, payload=_dense(u.payload, mentee)) for u in uploads]
        update = shortened(mean(arrived, weighted=False), self._energy(round))
        known = state[_KNOWN].clone()
        known[[upload.client for upload in uploads]] = latest  # they had this mentee, or could not have answered
        needed = {n: tensors for n, tensors in updates_in(state).items() if n > int(known[known >= 0].min())}
        kept = newest({**needed, latest + 1: update}, mentee)
        return {
            **updated(mentee, restored(update)),  # the very numbers that clients will add
            _UPDATES: torch.tensor(latest + 1),
            _KNOWN: known,
            **{name: tensor for n in sorted(kept) for name, tensor in numbered(kept[n], n).items()},
        }


def _names(algorithm: FedKD, task: Task) -> frozenset[str]:
    """The weights of the mentee that travel, found by making one; known afterwards, since that takes a while."""
    known = _NAMES.setdefault(task, {})
    if algorithm not in known:
        with draws.initial_weights(0):
            known[algorithm] = frozenset(_mentee(algorithm.server_state(task)))
    return known[algorithm]


def _dense(payload: Payload, mentee: Mapping[str, Tensor]) -> Payload:
    """An upload, multiplied out. Only the server does: unlike clients' copies, it may add up in any order."""
    return Payload(restored(payload.tensors, mentee, torch.matmul), payload.meta)


def _mentee(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the mentee among what the server or a client keeps."""
    return {name: tensor for name, tensor in tensors.items() if name.startswith(("small_body.", "small_head."))}


def _latest(payload: Payload) -> int:
    """How many updates the server's mentee has had."""
    latest = payload.meta.get(_UPDATES)
    if not isinstance(latest, int) or isinstance(latest, bool) or not 0 <= latest < 1 << 62:
        raise PayloadError(f"a mentee arrived with {latest!r} as its number of updates.")
    return latest
