"""From a configuration to clients: which network each takes, and from which weights it starts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from potluck import draws, models
from potluck.config import RunConfig, make_config
from potluck.data import sources
from potluck.engines.loop import Loop
from potluck.errors import ConfigError, DataWarning
from potluck.experiment import architectures, make_clients, make_federation, warnings_afterwards
from run import tiny

SEED = 3


def config(**settings: Any) -> RunConfig:
    return make_config({"algorithm": "standalone", "seed": SEED, "clients": 7, "partition": "iid", **settings})


def names(**settings: Any) -> list[str]:
    return [architecture.key for architecture in architectures(config(**settings), tiny.load())]


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(tensor, other[path]) for path, tensor in one.items())


def test_networks_by_id() -> None:
    assert names() == names(assignment="by-id") == [f"cnn-{number}" for number in (1, 2, 3, 4, 5, 1, 2)]
    assert names(models="cnn-3,mlp-9") == ["cnn-3", "mlp-9"] * 3 + ["cnn-3"]


def test_networks_at_random() -> None:
    found = names(models="cnn-1..3", assignment="random")
    # One uniform draw per client from the seed, cut into three.
    chances = draws.uniform(draws.spread(draws.fold(SEED, "models"), torch.arange(7)))
    assert found == [f"cnn-{1 + int(3 * chance)}" for chance in chances]
    assert len(set(found)) == 3
    assert found == names(models="cnn-1..3", assignment="random", clients=9)[:7]
    assert found != names(models="cnn-1..3", assignment="random", seed=4)


@pytest.mark.parametrize("how", ["by-id", "random"])
def test_one_name_is_for_all(how: str) -> None:
    assert names(models="mlp-9", assignment=how) == ["mlp-9"] * 7


def test_weights_per_architecture() -> None:
    made = architectures(config(models="mlp-5,mlp-6"), tiny.load())
    assert made[0] is made[2]
    assert made[1] is made[3] is not made[0]
    assert same(made[0].build().state_dict(), made[0].build().state_dict())
    with draws.initial_weights(draws.fold(SEED, "weights", "mlp-5")):
        assert same(made[0].build().state_dict(), models.build("mlp-5", (1, 28, 28), 10).state_dict())


def test_weights_per_client() -> None:
    made = architectures(config(models="mlp-5,mlp-6", initial_weights="per-client"), tiny.load())
    assert [architecture.key for architecture in made] == ["mlp-5", "mlp-6"] * 3 + ["mlp-5"]
    assert len(set(map(id, made))) == 7
    first, again, other = made[0].build(), made[0].build(), made[2].build()
    assert same(first.state_dict(), again.state_dict())
    assert not torch.equal(first.get_parameter("head.weight"), other.get_parameter("head.weight"))


def test_weights_are_made_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = models.build

    def counting(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
        built.append(name)
        return build(name, shape, classes)

    monkeypatch.setattr(models, "build", counting)
    many = config(models="mlp-512", initial_weights="per-client", clients=50, fraction=0.04, engine="loop")
    clients = make_clients(many, tiny.load())
    assert len(clients) == 50
    assert not built
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
    federation = make_federation(many, None)
    assert len(built) == 1  # tried out once for all: they are of one architecture
    federation.run(1)
    # Two trained, and everyone was evaluated in the last round, one after another from weights of their own.
    assert len(built) > 50
    # Fifty networks of 1.6 MB; eight sets of initial weights are kept at a time.
    assert isinstance(federation.engine, Loop)
    assert all(len(worker.workshop._initial) <= 8 for worker in federation.engine._workers)


def test_clients_start_where_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
    own, common = (
        make_federation(config(models="mlp-5", initial_weights=weights, clients=3), None)
        for weights in ("per-client", "per-architecture")
    )
    heads = [
        [each.networks(client)["head"].get_parameter("weight") for client in each.clients] for each in (own, common)
    ]
    assert not any(torch.equal(heads[0][0], other) for other in heads[0][1:])
    assert all(torch.equal(heads[1][0], other) for other in heads[1][1:])
    for federation in (own, common):
        federation.run(1)
        assert federation.history.rounds[0]["loss"] > 0


def test_clients_show_their_own_samples_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
    federation = make_federation(config(models="mlp-5", clients=3, partition="pathological:2"), None)
    accuracy = federation.run(1).summary["client_accuracy"]
    for client in federation.clients:
        for examples in (client.train, client.validation, client.test):
            assert len(examples.x) == len(examples.y) == len(examples) < len(tiny.load().y)
            assert examples.whole_x is federation.clients[0].train.whole_x
        assert len(set(client.train.y.tolist())) == 2
        right = (federation.predict(client, client.test.x) == client.test.y).double().mean()
        assert accuracy[client.id] == pytest.approx(float(right))


def given_meanwhile(error: Exception | None) -> list[str]:
    """The warnings that come out of work that warns of data twice, and of something else, and may fail."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            with warnings_afterwards():
                for text in ("few samples", "few samples", "few classes"):
                    warnings.warn(text, DataWarning, stacklevel=1)
                warnings.warn("of a library", UserWarning, stacklevel=1)
                if error is not None:
                    raise error
        except ConfigError:
            assert error is not None
    return [str(warning.message) for warning in found]


def test_warnings_about_data_come_once_and_after_the_others() -> None:
    assert given_meanwhile(None) == ["of a library", "few samples", "few classes"]


def test_an_error_takes_the_place_of_warnings_about_data_alone() -> None:
    assert given_meanwhile(ConfigError("wrong")) == ["of a library"]


def test_warnings_that_are_not_wanted_stay_away() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore", UserWarning)
        with warnings_afterwards():
            warnings.warn("of a library", UserWarning, stacklevel=1)
    assert not found
