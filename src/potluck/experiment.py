"""From a configuration to a federation: data, partition, models, clients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
from potluck.errors import ConfigError, DataWarning
from potluck.federation import GIVEN, Federation
from potluck.results import read_run
from potluck.run.folder import RunFolder


@dataclass(frozen=True)
class Shares:
    """Who has which samples of a data set.

    Attributes:
        clients: For each of the pools "train", "validation" and "test" the rows of every client.
        public: The rows that everybody may see; None where none are set aside.
        pools: The rows of each pool that were dealt; a partition may leave some of them to nobody.
    """

    clients: dict[str, list[Tensor]]
    public: Tensor | None
    pools: dict[str, Tensor]


def share_out(config: RunConfig, source: Source) -> Shares:
    """Split a data set into pools, set public samples aside if asked for, and deal the rest to the clients."""
    key = draws.fold(config.seed, "data")
    rows = pools(source, source.default_split if config.split is None else config.split, key)
    public = None
    if config.set_aside == "public":
        stay, aside = set_aside(source.y[rows["train"]], config.public, draws.fold(key, "public"))
        rows["train"], public = rows["train"][stay], rows["train"][aside]
    labels = {name: source.y[pool] for name, pool in rows.items()}
    parts = partition(config.partition, labels, source.classes, config.clients, key)
    return Shares({name: [pool[part] for part in parts[name]] for name, pool in rows.items()}, public, rows)


def make_clients(config: RunConfig, source: Source, shares: Shares | None = None) -> list[Client]:
    """The clients of a run; their networks are made when they are first needed."""
    rows = (shares or share_out(config, source)).clients
    clients = []
    for number, architecture in enumerate(architectures(config, source)):
        data = {name: Examples(source.x, source.y, pool[number]) for name, pool in rows.items()}
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
        return [
            Architecture(name, _builder(name, source, key), f"{name} by {key}")
            for name, key in zip(taken, keys, strict=True)
        ]
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


@contextmanager
def warnings_afterwards() -> Iterator[None]:
    """Give warnings about data, each once, when the block has ended well; an error takes their place.

    All other warnings are given afterwards as well, also those before an error.
    """
    found: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", DataWarning)
            yield
    finally:
        _give(warning for warning in found if not issubclass(warning.category, DataWarning))
    about_data = (warning for warning in found if issubclass(warning.category, DataWarning))
    _give({str(warning.message): warning for warning in about_data}.values())


def _give(found: Iterable[warnings.WarningMessage]) -> None:
    for each in found:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno, source=each.source)


@warnings_afterwards()
def make_federation(config: RunConfig, out: Path | None) -> Federation:
    """The federation that a configuration describes."""
    source = sources.load(config.data, config.data_dir)
    transform = Transform(source.mean, source.std, config.augmentation)
    settings = config.model_dump(include=set(FederationConfig.model_fields))
    shares = share_out(config, source)
    method = config.method()
    # Of another method they are set aside for its clients to hold what they hold under one that needs them.
    public = shares.public if "public data" in method.needs else None
    return Federation(
        method,
        make_clients(config, source, shares),
        out=out,
        public=None if public is None else Examples(source.x, source.y, public),
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
    try:
        return make_config(config)
    except ConfigError as error:
        raise ConfigError(f"{folder.path / 'config.toml'} cannot be used: {error}") from error


def open_run(path: str | Path, *, data_dir: str | None = None) -> Federation:
    """A run on disk as a federation, at its newest checkpoint, to ``predict`` with its clients' personal models.

    The run's data set must be at hand, and a checkpoint: of a finished run that of its last round. Where the newest
    checkpoint of another run is damaged, the one before is opened, with a :class:`~potluck.errors.DataWarning`.

    Args:
        path: The run's folder.
        data_dir: Where data sets are, if they have moved since.
    """
    read_run(Path(path))
    config = read_config(RunFolder.open(Path(path)))
    if data_dir is not None:
        config = config.model_copy(update={"data_dir": data_dir})
    federation = make_federation(config, Path(path))
    if problems := federation.restore(to_read=True):
        warnings.warn(
            f"{path} is opened as it was after round {federation.rounds}. {' '.join(problems)}",
            DataWarning,
            stacklevel=2,
        )
    return federation
