"""How long does a round take on the stacked engine, against loop?

Run it with ``python benchmarks/engines.py``, with a GPU or without. It runs a method with CNN-1 to CNN-5 on
the carried Fashion-MNIST, round by round on both engines in turn, and prints seconds per round and their ratio.
"""

from __future__ import annotations

import argparse
import statistics

from potluck.config import make_config
from potluck.experiment import make_federation
from potluck.federation import Federation


def main() -> None:
    """Measure both engines side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="pfedes")
    parser.add_argument("--models", default="cnn-1..5")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--fraction", type=float, default=1.0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    federations = {engine: _federation(engine, arguments) for engine in ("loop", "stacked")}
    seconds: dict[str, list[float]] = {engine: [] for engine in federations}
    for round in range(1, arguments.rounds + 2):
        for engine, federation in federations.items():
            federation.run(round, watch=lambda _: None)
            seconds[engine].append(federation.history.rounds[-1]["seconds"])
    for engine, federation in federations.items():
        times = seconds[engine]
        print(
            f"{engine:>8} on {federation.device}: {times[0]:.3f} s at first, then {statistics.median(times[1:]):.3f} s"
        )
        for note in federation.engine.notes:
            print(f"{'':>8} {note}")
    # Without the first round, in which everything is made, tried out and recorded.
    print(f"   ratio: {statistics.median(seconds['loop'][1:]) / statistics.median(seconds['stacked'][1:]):.2f}")


def _federation(engine: str, arguments: argparse.Namespace) -> Federation:
    settings = {
        "algorithm": arguments.algorithm, "data": "fashion-mnist-10k", "partition": "pathological:2",
        "models": arguments.models, "clients": arguments.clients, "fraction": arguments.fraction,
        "batch_size": arguments.batch_size, "device": arguments.device, "engine": engine, "evaluate_every": 10**6,
    }  # fmt: skip
    return make_federation(make_config(settings), None)


if __name__ == "__main__":
    main()
