"""How do time and memory grow with clients in a round, and with clients that do not take part in it?

    python -m benchmarks.clients [--data-dir DIR] [--device cuda] [--clients 100 1000 10000] [--per-round 10 50 100 500]

pFedES with CNN-1 to CNN-5, images dealt out evenly. Every row is a process of its own. First 10 clients take part in
every round of ever larger federations, whose clients have six images each; then ever more take part in the rounds of
one federation of 500. Printed are the median of the rounds after the first ones, as a ratio to the first row too, and
the most memory held. Without CIFAR-10 at hand images are noise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.noise import images
from potluck.config import FederationConfig, make_config
from potluck.data.transform import Transform
from potluck.experiment import make_clients
from potluck.federation import Federation

_SMALLEST = 10_000
"""A federation is the first clients of one of so many, so that a client has as many images in all of them."""


@dataclass(frozen=True)
class Case:
    """What to measure: how many of how many clients, and how many of these the images are dealt out to."""

    clients: int
    per_round: int
    dealt: int
    rounds: int
    device: str
    data_dir: str | None


@dataclass(frozen=True)
class Found:
    """Seconds of a round, and the most memory held by the process and on the GPU, in MiB."""

    seconds: float
    memory: float
    gpu: float


def main() -> None:
    """Measure one federation after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with cifar-10-batches-bin/")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--clients", nargs="*", type=int, default=[100, 1000, 10_000])
    parser.add_argument("--per-round", nargs="*", type=int, default=[10, 50, 100, 500])
    parser.add_argument("--cohort", type=int, default=10, help="clients in a round, as their number grows")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    common = given.rounds, given.device, given.data_dir
    growing = [Case(count, given.cohort, max(_SMALLEST, count), *common) for count in given.clients]
    busier = [Case(max(500, count), count, max(500, count), *common) for count in given.per_round]
    _print("clients of the federation", ((case.clients, case) for case in growing))
    _print("clients in a round", ((case.per_round, case) for case in busier))


def _print(what: str, cases: Iterable[tuple[int, Case]]) -> None:
    first = None
    for number, case in cases:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(measure, (case,))
        if first is None:
            first = found.seconds
            print(f"\n{what:>26}  s per round   ratio   memory (MiB)   GPU memory (MiB)")
        ratio = found.seconds / first
        print(f"{number:>26,}{found.seconds:>13.3f}{ratio:>8.2f}{found.memory:>15,.0f}{found.gpu:>19,.0f}", flush=True)


def measure(case: Case) -> Found:
    """Run some rounds."""
    config = make_config({
        "algorithm": "pfedes", "data": "cifar-10", "partition": "iid", "clients": case.dealt,
        "evaluate_every": 10**6, "device": case.device,
    })  # fmt: skip
    source = images(case.data_dir)
    settings = config.model_dump(include=set(FederationConfig.model_fields) - {"fraction"})
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(
            config.method(),
            make_clients(config, source)[: case.clients],
            fraction=case.per_round / case.clients,
            out=Path(folder) / "run",
            transform=Transform(source.mean, source.std, config.augmentation),
            **settings,
        )
        history = federation.run(case.rounds, watch=lambda _event: None)
    # Without the first rounds, in which everything is made, and the last, which evaluates everyone.
    seconds = statistics.median(record["seconds"] for record in history.rounds[case.rounds // 4 : -1])
    gpu = torch.cuda.max_memory_reserved() / 2**20 if torch.cuda.is_available() else 0.0
    return Found(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, gpu)


if __name__ == "__main__":
    main()
