"""What cannot be stacked runs on loop, to the same result, and the engine says so."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from potluck.contract import Batch, Networks, Phase, Received, Round
from potluck.engines import Job, Outcome
from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked
from potluck.engines.threads import threads
from potluck.errors import ModelError
from potluck.payload import Payload

from ..made_up import CLASSES, MadeUp, Mean, cross_entropy, full_model, job, member, model, plain_model, setting
from .small import Unready, close

ROUND = Round(1, 1)


class Counting(nn.Module):
    """Counts its training steps in a buffer, and adds the count."""

    count: Tensor

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            if self.in_place:
                self.count.add_(1)
            else:
                self.count = self.count + 1
        return x + self.count


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if float(x.detach().sum()) > 0 else 2 * x


class Centring(nn.Module):
    """Looks at its whole batch, and cannot know which samples are padding."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Patches(nn.Module):
    """Normalises over parts of samples, which are not whole batches one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x.reshape(-1, 2))
        return out.reshape(x.shape)


class Doubling(nn.BatchNorm1d):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


class Lines(nn.Module):
    """Instance norm with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(2, track_running_stats=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x.view(-1, 2, 2))
        return out.reshape(x.shape)


HARD: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "another buffer": (lambda: Counting(in_place=False), "its body.0.count is not the same"),
    "a buffer in place": (lambda: Counting(in_place=True), "body.0.count|in-place|inplace"),
    "branches": (Branching, "vmap"),
    "the whole batch": (Centring, "its .* is not the same"),
    "parts of samples": (Patches, "its .* is not the same"),
    "a batch norm of its own": (lambda: Doubling(4), "its .* is not the same|running_mean|in-place|inplace"),
    "instance norm with statistics": (Lines, "running_mean|in-place|inplace"),
}


def hard(name: str) -> nn.Module:
    return model(HARD[name][0](), nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def same(expected: list[Outcome], found: list[Outcome], tolerance: float = 1e-9) -> None:
    assert sorted(one.client for one in found) == [one.client for one in expected]
    for one, other in zip(expected, sorted(found, key=lambda outcome: outcome.client), strict=True):
        close(one.state, other.state, tolerance)
        close(dict(one.upload.tensors), dict(other.upload.tensors), tolerance)
        assert (one.flops, one.evaluation) == (other.flops, other.evaluation)
        assert one.loss == pytest.approx(other.loss, rel=tolerance, nan_ok=True)


@pytest.mark.parametrize("name", HARD)
def test_networks_that_cannot_be_stacked_run_on_loop(name: str, caplog: pytest.LogCaptureFixture) -> None:
    clients = [member(hard(name), 9, number=0), member(plain_model(), 7, number=1), member(hard(name), 5, number=2)]
    given = setting(MadeUp(sent=("head",)), momentum=0.9, epochs=2)
    engine = Stacked(given)
    with caplog.at_level(logging.WARNING, "potluck"):
        outcomes = list(engine.train(ROUND, [job(client) for client in clients]))
        again = list(engine.train(ROUND, [job(client) for client in clients]))
        evaluated = list(engine.evaluate(job(client) for client in clients))
    expected = list(Loop(given).train(ROUND, [job(client) for client in clients]))
    same(expected, outcomes)
    same(expected, again)
    loop = list(Loop(given).evaluate(job(client) for client in clients))
    assert sorted(evaluated, key=lambda evaluation: evaluation.client) == loop
    (note,) = engine.notes
    assert "clients with the networks of client 0 run on the loop engine" in note
    assert re.search(HARD[name][1], note)
    assert [record.getMessage() for record in caplog.records] == [note]


@pytest.mark.usefixtures("steps_may_fail")
@pytest.mark.parametrize("training", [True, False])
def test_steps_that_fail_after_a_trial_that_did_not_begin_anew_on_loop(
    training: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def network() -> nn.Module:
        return model(nn.Linear(4, 5), Unready(training), nn.Tanh(), nn.Linear(5, CLASSES))

    counts = dict(enumerate((9, 9, 7, 9, 5, 6, 3, 8)))
    clients = [
        member(plain_model() if number == 1 else network(), count, number=number) for number, count in counts.items()
    ]
    given = setting(MadeUp(sent=("head",)), epochs=2, dtype=torch.float32)
    loop, engine = Loop(given), Stacked(given, rounding=True)  # in teams of four, of two and of one
    with caplog.at_level(logging.WARNING, "potluck"):
        found = [list(engine.train(ROUND, [job(client) for client in clients])) for _ in range(2)]
        evaluated = list(engine.evaluate(job(client) for client in clients))
    for outcomes in found:
        same(list(loop.train(ROUND, [job(client) for client in clients])), outcomes, tolerance=1e-5)
    expected = list(loop.evaluate(job(client) for client in clients))
    assert sorted(evaluated, key=lambda evaluation: evaluation.client) == expected
    (note,) = engine.notes
    assert note.endswith("run on the loop engine, one by one: RuntimeError: NYI: it is not there yet.")
    assert [record.getMessage() for record in caplog.records] == [note]


@pytest.mark.usefixtures("steps_may_fail")
@pytest.mark.parametrize("training", [True, False])
def test_evaluations_that_fail_after_a_trial_that_did_not_begin_anew_on_loop(training: bool) -> None:
    network = model(nn.Linear(4, 5), Unready(training), nn.Tanh(), nn.Linear(5, CLASSES))
    given, clients = setting(MadeUp(), dtype=torch.float32), [member(network, 9, number=number) for number in range(3)]
    engine = Stacked(given)
    found = list(engine.evaluate(job(client) for client in clients))
    assert found == list(Loop(given).evaluate(job(client) for client in clients))
    assert len(engine.notes) == (not training)


def branching_loss(net: Networks, batch: Batch, received: Received) -> Tensor:
    loss = cross_entropy(net, batch, received)
    return loss if float(loss.detach()) > 0 else -loss


def unweighted_loss(net: Networks, batch: Batch, received: Received) -> Tensor:
    return torch.nn.functional.cross_entropy(net(batch.x), batch.y)


def numpy_loss(net: Networks, batch: Batch, received: Received) -> Tensor:
    return cross_entropy(net, batch, received) * float(batch.y.numpy().max() >= 0)


@pytest.mark.parametrize("loss", [branching_loss, unweighted_loss, numpy_loss])
def test_losses_that_cannot_be_stacked_run_on_loop(loss: Any) -> None:
    given = setting(MadeUp(then=[Phase(train=("body", "head"), loss=loss)]))
    clients = [member(plain_model(number), 5 + number, number=number) for number in range(3)]
    engine = Stacked(given)
    outcomes = list(engine.train(ROUND, [job(client) for client in clients]))
    same(list(Loop(given).train(ROUND, [job(client) for client in clients])), outcomes)
    assert len(engine.notes) == 1


class Careless(Mean):
    """Collects samples that do not count."""

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        return {"sum": net.body(batch.x).sum(0), "count": batch.weight.sum()}


class Looking(MadeUp):
    """Predicts by what the whole batch looks like."""

    def predict(self, net: Networks, x: Tensor, received: Received) -> Tensor:
        logits = net(x)
        return logits - logits.mean(0)


@pytest.mark.parametrize("kind", [Careless, Looking])
def test_reading_that_cannot_be_stacked_runs_on_loop(kind: type[MadeUp]) -> None:
    given = setting(kind())
    clients = [member(plain_model(number), 5 + number, number=number) for number in range(3)]
    engine = Stacked(given)
    same(
        list(Loop(given).train(ROUND, [job(client) for client in clients])),
        list(engine.train(ROUND, [job(client) for client in clients])),
    )
    assert "is not the same" in engine.notes[0]


def test_clients_that_receive_unlike_tensors_run_on_loop() -> None:
    given = setting(MadeUp())
    clients = [member(plain_model(number), 6, number=number) for number in range(2)]
    jobs: list[Job] = [job(client, payload=Payload({"wish": torch.ones(1 + client.id)})) for client in clients]
    engine = Stacked(given)
    same(list(Loop(given).train(ROUND, jobs)), list(engine.train(ROUND, jobs)))
    assert "what its clients receive differs" in engine.notes[0]


def test_a_network_that_draws_is_refused_as_on_loop() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.randn_like(x)

    noisy = model(Noisy(), nn.Linear(4, 5), nn.Linear(5, CLASSES))
    with pytest.raises(ModelError, match="draws random numbers with randn_like"):
        list(Stacked(setting(MadeUp())).train(ROUND, [job(member(noisy))]))


def test_what_can_be_stacked_is_found_out_before_a_run() -> None:
    engine = Stacked(setting(MadeUp()))
    engine.prepare(ROUND, [job(member(full_model()))])
    assert not engine.notes
    engine.prepare(ROUND, [job(member(hard("branches"), number=3))])
    assert "client 3" in " ".join(engine.notes)


def test_trials_take_one_thread_which_leaves_the_cores_to_runs_beside() -> None:
    seen: list[int] = []

    def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
        seen.append(torch.get_num_threads())
        return cross_entropy(net, batch, received)

    engine = Stacked(setting(MadeUp(then=[Phase(train=("head",), loss=loss)])))
    with threads(3):
        engine.prepare(ROUND, [job(member(full_model()))])
        assert torch.get_num_threads() == 3
    assert engine.notes == ()
    assert set(seen) == {1}
