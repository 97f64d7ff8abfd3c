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
    architectures = [
        Architecture(name, _builder(name, source, config.seed)) for name in models.assignment(config.models)
    ]
    clients = []
    for number in range(config.clients):
        data = {name: Examples(source.x, source.y, pool[parts[name][number]]) for name, pool in rows.items()}
        clients.append(Client(architectures[number % len(architectures)], **data))
    return clients


def _builder(name: str, source: Source, seed: int) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        # Clients of one architecture start from the same weights, as in the papers' released code.
        with draws.initial_weights(draws.fold(seed, "weights", name)):
            return models.build(name, source.shape, source.classes)

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
