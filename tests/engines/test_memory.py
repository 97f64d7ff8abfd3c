"""What clients remember of what they received, and errors about what arrives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import potluck
from potluck import Payload, Round, Task
from potluck.algorithms import Algorithm, State, Upload
from potluck.contract import Received
from potluck.errors import PayloadError


class Remembers(Algorithm):
    """Clients remember what they receive, under two names; the server changes its state in place."""

    name: ClassVar[str] = "remembers"
    remembers: ClassVar[bool] = True

    def server_state(self, task: Task) -> State:
        return {"rounds": torch.zeros(3)}

    def receive(self, payload: Payload, task: Task) -> Received:
        return {**payload.tensors, "again": payload.tensors["rounds"]}

    def check(self, upload: Upload, state: State, task: Task) -> None:
        upload.payload.require({})

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        state["rounds"].add_(1)
        return state


class SendsNaN(Remembers):
    """Client 1 gets what is no number."""

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        sent = state["rounds"] if client == 0 or round.number == 1 else torch.full((3,), torch.nan)
        return Payload({"rounds": sent})

    def receive(self, payload: Payload, task: Task) -> Received:
        payload.require_finite()
        return super().receive(payload, task)


class SendsNaNAtOnce(SendsNaN):
    """In the first round too."""

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        return super().broadcast(state, client, Round(2, 2))


def federation(method: type[Algorithm], **how: Any) -> potluck.Federation:
    members = []
    for _ in range(2):
        data: tuple[Tensor, Tensor] = torch.randn(4, 3), torch.arange(4) % 2
        members.append(potluck.Client(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), data, data))
    return potluck.Federation(method, members, device="cpu", engine="loop", **how)


def run(of: potluck.Federation, rounds: int) -> None:
    of.run(rounds, watch=lambda _event: None)


def test_what_is_remembered_is_a_copy() -> None:
    of = federation(Remembers)
    run(of, 1)
    held = of.job(0, Round(2, 2)).held()
    assert held is not None
    assert held["received:rounds"].tolist() == held["received:again"].tolist() == [0, 0, 0]
    assert of.server["rounds"].tolist() == [1, 1, 1]


def test_two_names_of_one_tensor_are_remembered_in_a_folder(tmp_path: Path) -> None:
    of = federation(Remembers, out=tmp_path / "run")
    run(of, 2)
    assert of.rounds == 2


@pytest.mark.parametrize(("method", "rounds"), [(SendsNaNAtOnce, 1), (SendsNaN, 2)])
def test_the_client_at_which_something_invalid_arrives_is_named(method: type[Algorithm], rounds: int) -> None:
    with pytest.raises(PayloadError, match=r"^what client 1 received is invalid: tensor 'rounds' holds numbers"):
        run(federation(method), rounds)
