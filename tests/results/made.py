"""Run folders made up of chosen numbers, as a run would have written them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from potluck.config import make_config
from potluck.data.sources import fashion_mnist_10k
from potluck.metrics.protocol import History, summarize
from potluck.run.inputs import COUNTS, NAME, NETWORKS, SAMPLES, Inputs, digest, text_digest
from potluck.run.toml import to_toml


def run(
    path: Path,
    algorithm: str = "standalone",
    *,
    seed: int = 0,
    accuracies: Sequence[Sequence[float | None]] = ((0.5, 0.7), (0.6, 0.8)),
    validation: Sequence[float | None] | None = None,
    finished: bool = True,
    cohort: Sequence[int] | None = None,
    everyone: Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a run.

    Args:
        path: Its folder.
        algorithm: Name of its algorithm.
        seed: Its seed.
        accuracies: For each round the test accuracy of each client.
        validation: For each round the validation accuracy, the same for all clients.
        finished: Whether it ran to its end.
        cohort: The clients that take part in each round; all without.
        everyone: The rounds in which all clients are evaluated; all without.
        settings: Further settings; those of the algorithm under ``algorithm.``.
    """
    own = {key.removeprefix("algorithm."): v for key, v in (settings or {}).items() if key.startswith("algorithm.")}
    others = {key: value for key, value in (settings or {}).items() if not key.startswith("algorithm.")}
    size = {"rounds": len(accuracies), "clients": len(accuracies[0]), "seed": seed}
    config = make_config({"algorithm": {"name": algorithm, **own}, **size, **others}).complete()
    rounds, clients = [], []
    for number, values in enumerate(accuracies, 1):
        checked = validation[number - 1] if validation else None
        taking = list(cohort or range(len(values)))
        all_evaluated = everyone is None or number in everyone
        for client, accuracy in enumerate(values):
            if client in taking or all_evaluated:
                record = {"round": number, "client": client, **_scores([accuracy], checked)}
                clients.append({**record, **_costs(1)} if client in taking else record)
        rounds.append(
            {
                "round": number,
                "cohort": taking,
                "failed": [],
                "participants": _scores([values[client] for client in taking], checked),
                "all": _scores(values, checked) if all_evaluated else None,
                **_costs(len(taking)),
                "seconds": 0.5,
            }
        )
    path.mkdir(parents=True)
    write_inputs(path, config)
    (path / "config.toml").write_text(to_toml(config))
    (path / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in rounds))
    (path / "clients.jsonl").write_text("".join(json.dumps(record) + "\n" for record in clients))
    if finished:
        (path / "summary.json").write_text(json.dumps(summarize(config, History(rounds, list(accuracies[-1])))))
    return path


def renamed(path: Path, algorithm: str) -> Path:
    """The same run by a method of this name, which need not be known here."""
    summary = json.loads((path / "summary.json").read_text())
    config = path / "config.toml"
    old, new = (to_toml({"name": name}).strip() for name in (summary["algorithm"]["name"], algorithm))
    config.write_text(config.read_text().replace(old, new))
    summary["algorithm"]["name"] = algorithm
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def write_inputs(path: Path, config: Mapping[str, Any], data: str = "") -> None:
    """Write digests as they are where samples depend on the data set, its split, the partition and the seed.

    A client has 80 training samples, 30 of which are gone where public samples are set aside.
    """
    shares = [str(config.get(name)) for name in ("data", "split", "partition", "set_aside", "seed")]
    clients = [text_digest(" ".join([data, *shares, str(client)])) for client in range(config["clients"])]
    whole = text_digest(data) if data or shares[0] != "fashion-mnist-10k" else _carried()
    counts = ["50" if config.get("set_aside") else "80"] * len(clients)
    columns = {**dict.fromkeys((*NETWORKS, *SAMPLES), clients), COUNTS: counts}
    (path / NAME).write_text(json.dumps(Inputs({"data set": whole}, columns).plain()))


@cache
def _carried() -> str:
    """The digest of the data set that every run has by default."""
    source = fashion_mnist_10k.load()
    return digest(source.x, source.y)


def _scores(values: Sequence[float | None], validation: float | None) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else None
    return {"accuracy": mean, "balanced_accuracy": mean, "macro_f1": mean, "validation_accuracy": validation}


def _costs(clients: int) -> dict[str, float]:
    names = ("bytes_up", "bytes_down", "tensor_bytes_up", "tensor_bytes_down", "flops", "server_flops")
    return {"loss": 0.1, **{name: (number + 1) * 100 * clients for number, name in enumerate(names)}}
