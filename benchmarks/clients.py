"""Does a round take longer, or memory grow, with clients that do not take part in it?

Run it with ``python -m benchmarks.clients --data-dir DIR``. It runs pFedES with ten clients per round on CIFAR-10, iid,
six images per client, in a federation of 100 and one of 10,000 such clients, and prints seconds per round, their
ratio, and the most memory held.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
from pathlib import Path

from potluck.config import FederationConfig, make_config
from potluck.data.sources import load
from potluck.data.transform import Transform
from potluck.experiment import make_clients
from potluck.federation import Federation


def main() -> None:
    """Measure one federation after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with cifar-10-batches-bin/")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    config = make_config(
        {"algorithm": "pfedes", "data": "cifar-10", "partition": "iid", "clients": 10_000, "evaluate_every": 10**6}
    )
    source = load("cifar-10", arguments.data_dir)
    clients = make_clients(config, source)
    seconds: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in (100, 10_000):
            settings = config.model_dump(include=set(FederationConfig.model_fields) - {"fraction"})
            federation = Federation(
                config.method(),
                clients[:count],
                fraction=10 / count,
                out=Path(folder) / str(count),
                transform=Transform(source.mean, source.std, config.augmentation),
                **settings,
            )
            history = federation.run(arguments.rounds)
            # Without the first rounds, in which everything is made, and the last, which evaluates everyone.
            seconds[count] = [record["seconds"] for record in history.rounds[5:-1]]
    middle = {count: statistics.median(times) for count, times in seconds.items()}
    for count, value in middle.items():
        print(f"{count:>6} clients: {value:.3f} s per round (median)")
    print(f" ratio: {middle[10_000] / middle[100]:.2f}")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
