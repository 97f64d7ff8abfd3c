"""How long a report of many long runs takes, and how large its page is: ``python -m benchmarks.report``.

The runs are made up: their records look like those of real ones, and nothing was trained for them.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from potluck.config import make_config
from potluck.metrics.observe import GRADIENT
from potluck.run.folder import RunFolder
from potluck.run.record import read_history

METHODS = ("standalone", "pfedes", "pfedafm", "fedclassavg", "fedgh", "fedproto", "fml", "fedkd", "fd", "lg-fedavg")


def main() -> None:
    """Make up runs, report them, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--fraction", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=1, help="so many of the runs are of one method")
    parser.add_argument("--keep", type=Path, help="folder to leave everything in")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        runs = []
        for number in range(asked.runs):
            method, seed = METHODS[number // asked.seeds % len(METHODS)], number % asked.seeds
            runs.append(folder / f"{method}-{seed}")
            make_up(runs[-1], method, asked.clients, asked.rounds, asked.fraction, seed)
        begin = time.perf_counter()
        from potluck.report.page import write_report

        page = write_report(runs, folder)
        seconds = time.perf_counter() - begin
        print(f"{asked.runs} runs of {asked.clients} clients and {asked.rounds} rounds, {asked.fraction} of them each")
        print(f"written in {seconds:.1f} s, the page has {page.stat().st_size / 1e6:.2f} MB")


def make_up(path: Path, method: str, clients: int, rounds: int, fraction: float, seed: int = 0) -> None:
    """Make the folder of a run that never was."""
    draw = random.Random(f"{method} {seed}")  # noqa: S311 (nothing here is secret)
    settings: dict[str, Any] = {
        "algorithm": method, "clients": clients, "rounds": rounds, "fraction": fraction, "seed": seed,
    }  # fmt: skip
    folder = RunFolder.create(path, make_config(settings).complete())
    goal, pace, up = draw.uniform(0.75, 0.95), draw.uniform(20, 80), draw.randrange(100, 10**6)
    own = [draw.gauss(0, 0.05) for _ in range(clients)]
    size = max(1, math.floor(fraction * clients + 1e-9))
    for number in range(1, rounds + 1):
        cohort = sorted(draw.sample(range(clients), size))
        everyone = number % 10 == 0 or number == rounds
        level = 0.5 + (goal - 0.5) * (1 - math.exp(-number / pace))
        lines = []
        for client in range(clients) if everyone else cohort:
            accuracy = min(1.0, max(0.0, level + own[client] + draw.gauss(0, 0.01)))
            line: dict[str, Any] = {"round": number, "client": client, **_scores(accuracy)}
            if client in cohort:
                seen = {GRADIENT: 9 / number * draw.uniform(0.5, 2), "mixing": math.exp(-number / 200)}
                line |= {"loss": 1 - level, "bytes_up": up, "tensor_bytes_up": up, "bytes_down": up}
                line |= {"tensor_bytes_down": up, "flops": 10**9, "observed": seen}
            lines.append(line)
        folder.append("clients.jsonl", *lines)
        took_part = [line for line in lines if line["client"] in cohort]
        record = {
            "round": number, "cohort": cohort, "failed": [], "loss": 1 - level,
            "participants": _scores(_mean(took_part)), "all": _scores(_mean(lines)) if everyone else None,
            "bytes_up": up * size, "tensor_bytes_up": up * size, "bytes_down": up * size,
            "tensor_bytes_down": up * size, "flops": 10**8 + size * draw.randrange(10**9, 2 * 10**9),
            "server_flops": 10**8,
            "observed": {GRADIENT: 9 / number, "mixing": math.exp(-number / 200)}, "seconds": draw.uniform(1, 2),
        }  # fmt: skip
        folder.append("rounds.jsonl", record)
    folder.finish({"version": 1, "algorithm": {"name": method}, **read_history(folder).summary})
    folder.close()


def _scores(accuracy: float) -> dict[str, float]:
    return dict.fromkeys(("accuracy", "balanced_accuracy", "macro_f1", "validation_accuracy"), accuracy)


def _mean(lines: list[dict[str, Any]]) -> float:
    return sum(float(line["accuracy"]) for line in lines) / len(lines)


if __name__ == "__main__":
    main()
