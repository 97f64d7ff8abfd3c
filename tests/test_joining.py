"""What clients must have in common, and what they set aside."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms import Algorithm, algorithm
from potluck.algorithms.base import Need
from potluck.client import Client
from potluck.data.examples import Examples
from potluck.data.transform import Transform
from potluck.errors import ConfigError, DataError, ModelError
from potluck.joining import admit, common_task, inputs, public_samples

CPU = torch.device("cpu")


class HeldOut(Algorithm):
    """Sets a share aside, and needs more than most."""

    name: ClassVar[str] = "held-out"
    title: ClassVar[str] = "HeldOut"
    paper: ClassVar[str] = "none"
    needs: ClassVar[frozenset[Need]] = frozenset({"equal width", "public data"})

    share: float = 0.2

    @property
    def holdout_share(self) -> float:
        return self.share


STANDALONE = algorithm("standalone")


def net(width: int = 4, classes: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, classes))


def data(count: int = 10, shape: tuple[int, ...] = (2,)) -> tuple[Tensor, Tensor]:
    return torch.arange(float(count))[:, None].expand(count, torch.Size(shape).numel()).reshape(count, *shape), (
        torch.arange(count) % 3
    )


def client(model: nn.Module | None = None, **given: Any) -> Client:
    return Client(model or net(), **{"train": data(), **given})


# ---- the task -------------------------------------------------------------------------------------------------------


def test_the_task_that_clients_share() -> None:
    task = common_task([client(), client()], STANDALONE)
    assert (task.shape, task.classes, task.width) == ((2,), 3, 4)
    assert isinstance(task.common_model(), nn.Sequential)


def test_the_same_client_twice_is_refused() -> None:
    one = client()
    with pytest.raises(ConfigError, match="the same client is given twice"):
        common_task([one, client(), one], STANDALONE)


def test_unlike_models_share_what_they_can() -> None:
    task = common_task([client(net(4)), client(net(5))], STANDALONE)
    assert (task.width, task.model) == (None, None)
    deep = nn.Sequential(nn.Linear(2, 9), nn.Tanh(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 3))
    task = common_task([client(net(4)), client(deep)], STANDALONE)
    assert (task.width, task.model) == (4, None)


def test_trying_models_out_leaves_the_global_generator_alone() -> None:
    dropping = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    clients = [client(dropping), client()]
    torch.manual_seed(0)
    before = torch.get_rng_state()
    common_task(clients, STANDALONE)
    assert torch.equal(torch.get_rng_state(), before)


def test_models_are_not_tried_out_while_another_thread_makes_weights() -> None:
    done = threading.Event()

    def join() -> None:
        common_task([client()], STANDALONE)
        done.set()

    thread = threading.Thread(target=join)
    with draws.initial_weights(1):
        thread.start()
        assert not done.wait(0.2)
    thread.join()
    assert done.is_set()


EMPTY = (torch.empty(0, 2), torch.empty(0, dtype=torch.int64))
SOFTMAX = nn.Sequential(nn.Linear(2, 3), nn.Softmax(1))

WRONG: dict[str, tuple[Client, type[Exception], str]] = {
    "no samples": (client(train=EMPTY), DataError, "client 1 has no training samples"),
    "another shape": (client(train=data(shape=(3,))), DataError, r"client 1 has train inputs of shape \(3,\).*\(2,\)"),
    "test of another shape": (client(test=data(shape=(3,))), DataError, r"client 1 has test inputs of shape \(3,\)"),
    "validation in another shape": (client(validation=data(shape=(2, 1))), DataError, "client 1 has validation"),
    "holdout of another shape": (client(holdout=data(shape=())), DataError, "client 1 has holdout"),
    "label too high": (client(train=(data()[0], data()[1] + 1)), DataError, "client 1 has labels from 1 to 3"),
    "label below zero": (client(test=(data()[0], data()[1] - 1)), DataError, "client 1 has labels from -1"),
    "other outputs": (client(net(classes=4)), ModelError, "3 and 4 outputs"),
    "softmax": (client(SOFTMAX), ModelError, "the model of client 1: .*softmax"),
    "other inputs": (client(nn.Linear(5, 3)), ModelError, "the model of client 1: "),
    "no linear layer": (client(nn.Identity()), ModelError, "the model of client 1: "),
}


@pytest.mark.parametrize(("wrong", "kind", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_client_that_does_not_fit_is_named(wrong: Client, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        common_task([client(), wrong], STANDALONE)


def test_unlike_models_are_refused_where_all_must_be_equal() -> None:
    with pytest.raises(ConfigError, match=r"FedAvg needs one architecture .* these hold 2.*pfedes"):
        common_task([client(net(4)), client(net(5))], algorithm("fedavg"))
    common_task([client(net(4)), client(net(4))], algorithm("fedavg"))


def test_unlike_widths_are_refused_where_they_must_be_equal() -> None:
    with pytest.raises(ConfigError, match=r"HeldOut needs representations of one width .* 4, 5"):
        common_task([client(net(5)), client(net(4))], HeldOut())


# ---- digests --------------------------------------------------------------------------------------------------------


class Masked(nn.Module):
    """Does not see all of its inputs, and does not save which."""

    mask: Tensor

    def __init__(self, mask: list[float]) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 3)
        nn.init.ones_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)
        self.register_buffer("mask", torch.tensor(mask), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.fc(x * self.mask)
        return output


def test_models_differ_in_their_digests_by_what_they_do_not_save_too() -> None:
    found = [
        inputs([client(Masked(mask))], None, Transform()).clients["initial weights"]
        for mask in ([1.0, 0.0], [1.0, 0.0], [0.0, 1.0])
    ]
    assert found[0] == found[1] != found[2]


# ---- public data ----------------------------------------------------------------------------------------------------


def test_public_samples_that_fit() -> None:
    task = common_task([client()], STANDALONE)
    found = public_samples(data(4), HeldOut(), task)
    assert found is not None
    assert len(found) == 4
    assert public_samples(None, STANDALONE, task) is None


@pytest.mark.parametrize(
    ("public", "kind", "message"),
    [
        (None, ConfigError, "HeldOut needs samples that everybody may see"),
        (data(shape=(3,)), DataError, r"public data are 10 samples of shape \(3,\)"),
        (EMPTY, DataError, "public data are 0 samples"),
        ((data()[0], data()[1] + 1), DataError, "labels of the public data are not all from 0 to 2"),
        (data()[0], DataError, "pair"),
    ],
    ids=["none", "shape", "empty", "labels", "no pair"],
)
def test_public_samples_that_do_not_fit(public: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        public_samples(public, HeldOut(), common_task([client()], STANDALONE))


# ---- admitting ------------------------------------------------------------------------------------------------------


def values(examples: Examples) -> list[float]:
    return examples.take(torch.arange(len(examples)))[0][:, 0].tolist()


def test_members_are_numbered_and_clients_are_left_alone() -> None:
    clients = [client(), client()]
    members = admit(clients, STANDALONE, 0, CPU)
    assert [member.id for member in members] == [0, 1]
    assert [one.id for one in clients] == [-1, -1]
    assert all(len(member.holdout) == 0 and len(member.train) == 10 for member in members)


def test_a_share_is_set_aside() -> None:
    clients = [client(), client(train=data(7)), client(train=data(2))]
    members = admit(clients, HeldOut(), 0, CPU)
    assert [(len(m.train), len(m.holdout)) for m in members] == [(8, 2), (6, 1), (1, 1)]
    for before, member in zip(clients, members, strict=True):
        assert sorted(values(member.train) + values(member.holdout)) == values(before.train)
        assert values(member.train) == sorted(values(member.train))
        assert len(before.holdout) == 0
        assert member.train.y.tolist() == [int(value) % 3 for value in values(member.train)]


def test_what_is_set_aside_depends_on_seed_and_client() -> None:
    def chosen(seed: int) -> list[list[float]]:
        return [values(m.holdout) for m in admit([client(train=data(60))] * 3, HeldOut(), seed, CPU)]

    assert chosen(0) == chosen(0)
    assert chosen(0) != chosen(1)
    assert len({tuple(part) for part in chosen(0)}) == 3


def test_a_holdout_that_was_given_is_kept() -> None:
    (member,) = admit([client(holdout=data(4))], HeldOut(), 0, CPU)
    assert (len(member.train), len(member.holdout)) == (10, 4)


def test_one_sample_cannot_be_shared() -> None:
    with pytest.raises(DataError, match="client 1 has 1 training sample"):
        admit([client(), client(train=data(1))], HeldOut(), 0, CPU)


def test_rows_of_one_source_stay_rows_of_it() -> None:
    source = data(10)
    clients = [client(train=Examples(*source, rows=torch.tensor(rows))) for rows in ([1, 3, 5, 7, 9], [0, 2, 4])]
    members = admit(clients, HeldOut(), 0, CPU)
    assert all(member.train.whole_x is source[0] for member in members)
    assert sorted(values(members[0].train) + values(members[0].holdout)) == [1, 3, 5, 7, 9]
