"""From a configuration to a federation: data, partition, models, clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from potluck import draws, models
from potluck.client import Architecture, Client
from potluck.config import FederationConfig, RunConfig, make_config
from potluck.data import sources
from potluck.data.examples import Examples
from potluck.data.partitions import partition
from potluck.data.sources import Source
from potluck.data.splits import pools
from potluck.data.transform import Transform
from potluck.errors import ConfigError
from potluck.federation import GIVEN, Federation
from potluck.run.folder import RunFolder


def make_clients(config: RunConfig, source: Source) -> list[Client]:
    """The clients of a run; their networks are made when they are first needed."""
    key = draws.fold(config.seed, "data")
    rows = pools(source, config.split or source.default_split, key)
    labels = {name: source.y[pool] for name, pool in rows.items()}
    parts = partition(config.partition, labels, source.classes, config.clients, key)
    clients = []
    for number, architecture in enumerate(architectures(config, source)):
        data = {name: Examples(source.x, source.y, pool[parts[name][number]]) for name, pool in rows.items()}
        clients.append(Client(architecture, **data))
    return clients


def architectures(config: RunConfig, source: Source) -> list[Architecture]:
    """How to make the network of each client; nothing is made yet.

    Clients with the same network start from the same weights, as in the papers' released code; with
    ``initial_weights = "per-client"`` each starts from its own.
    """
    names = models.assignment(config.models)
    taken = models.assign(names, config.clients, config.assignment, draws.fold(config.seed, "models"))
    if config.initial_weights == "per-client":
        keys = [draws.fold(config.seed, "weights", name, client) for client, name in enumerate(taken)]
        # The same name: an engine trains all of them in one module, and makes weights when a client first needs them.
        return [Architecture(name, _builder(name, source, key)) for name, key in zip(taken, keys, strict=True)]
    each = {
        name: Architecture(name, _builder(name, source, draws.fold(config.seed, "weights", name))) for name in names
    }
    return [each[name] for name in taken]


def _builder(name: str, source: Source, key: int) -> Callable[[], nn.Module]:
    shape, classes = source.shape, source.classes

    def build() -> nn.Module:
        with draws.initial_weights(key):
            return models.build(name, shape, classes)

    return build


def make_federation(config: RunConfig, out: Path | None) -> Federation:
    """The federation that a configuration describes."""
    source = sources.load(config.data, config.data_dir)
    transform = Transform(source.mean, source.std, config.augmentation)
    settings = config.model_dump(include=set(FederationConfig.model_fields))
    return Federation(
        config.method(),
        make_clients(config, source),
        out=out,
        transform=transform,
        config=config.complete(),
        **settings,
    )


def read_config(folder: RunFolder) -> RunConfig:
    """The configuration of a run on disk."""
    config = folder.config()
    if config.get("data") == GIVEN:
        raise ConfigError(
            f"{folder.path} was made from Python with data of its own, which it does not hold: make the same "
            "Federation again, with out=..., and call its restore() and run()."
        )
    return make_config(config)


def open_run(path: str | Path) -> Federation:
    """A run on disk as a federation, at its newest checkpoint: its ``clients`` can ``predict``.

    The run's data set must be at hand.
    """
    folder = RunFolder.open(Path(path))
    federation = make_federation(read_config(folder), Path(path))
    federation.restore(to_read=True)
    return federation
