"""From a configuration to a federation: data, partition, models, clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from potluck import draws, models
from potluck.client import Architecture, Client
from potluck.config import FederationConfig, RunConfig, make_config
from potluck.data import sources
from potluck.data.examples import Examples
from potluck.data.partitions import partition
from potluck.data.sources import Source
from potluck.data.splits import pools, set_aside
from potluck.data.transform import Transform
from potluck.errors import ConfigError
from potluck.federation import Federation
from potluck.metrics.protocol import History
from potluck.run.folder import RunFolder


def default_models(config: RunConfig) -> str:
    """The models of a run that names none: the papers' five, or the first where all must be equal."""
    return config.models or ("cnn-1" if "equal models" in config.method().needs else "cnn-1..5")


@dataclass(frozen=True)
class Shares:
    """Who has which samples of a data set.

    Attributes:
        clients: For each of the pools "train", "validation" and "test" the rows of every client.
        public: The rows that everybody may see; None where the algorithm needs none.
    """

    clients: dict[str, list[Tensor]]
    public: Tensor | None


def share_out(config: RunConfig, source: Source) -> Shares:
    """Split a data set into pools, set public samples aside where they are needed, and deal the rest to the clients."""
    key = draws.fold(config.seed, "data")
    rows = pools(source, config.split or source.default_split, key)
    public = None
    if "public data" in config.method().needs:
        stay, aside = set_aside(source.y[rows["train"]], config.public, draws.fold(key, "public"))
        rows["train"], public = rows["train"][stay], rows["train"][aside]
    labels = {name: source.y[pool] for name, pool in rows.items()}
    parts = partition(config.partition, labels, source.classes, config.clients, key)
    return Shares({name: [pool[part] for part in parts[name]] for name, pool in rows.items()}, public)


def make_clients(config: RunConfig, source: Source, shares: Shares | None = None) -> list[Client]:
    """The clients of a run; their networks are made when they are first needed."""
    rows = (shares or share_out(config, source)).clients
    architectures = [
        Architecture(name, _builder(name, source, config.seed)) for name in models.assignment(default_models(config))
    ]
    clients = []
    for number in range(config.clients):
        data = {name: Examples(source.x, source.y, pool[number]) for name, pool in rows.items()}
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
    if config.data == "given":
        raise ConfigError(
            "this run was made from Python with data of its own, which its folder does not hold: make the same "
            "Federation again, with out=..., and call its restore() and run()."
        )
    source = sources.load(config.data, config.data_dir)
    transform = Transform(source.mean, source.std, config.augmentation)
    settings = config.model_dump(include=set(FederationConfig.model_fields))
    shares = share_out(config, source)
    return Federation(
        config.method(),
        make_clients(config, source, shares),
        out=out,
        public=None if shares.public is None else Examples(source.x, source.y, shares.public),
        transform=transform,
        config=config.complete(),
        **settings,
    )


def summarize(config: RunConfig, history: History) -> dict[str, Any]:
    """The summary of a run: what was asked, and what came of it."""
    names = ("data", "partition", "clients", "fraction", "seed")
    settings = config.complete()
    return {
        "version": 1,
        "algorithm": settings["algorithm"],
        **{name: settings[name] for name in names},
        "models": default_models(config),
        **history.summary,
    }


def open_run(path: str | Path) -> Federation:
    """A run on disk as a federation, at its newest checkpoint: its ``clients`` can ``predict``."""
    folder = RunFolder.open(Path(path))
    federation = make_federation(make_config(folder.config()), Path(path))
    federation.restore(to_read=True)
    return federation
