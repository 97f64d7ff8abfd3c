"""A whole run as a picture: how accurate clients were after how many minutes, and how long each round took.

    python -m benchmarks.whole_run RUN PICTURE [--beside "loop=2.28" ...]

``RUN`` is the folder of a run, of which ``rounds.jsonl`` is read; ``--beside`` draws seconds per round of other ways.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from potluck.report.figures.style import COLOURS, drawing


def main() -> None:
    """Draw one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--beside", nargs="*", default=[], metavar="NAME=SECONDS")
    given = parser.parse_args()
    rounds = [json.loads(line) for line in (given.run / "rounds.jsonl").read_text().splitlines()]
    others = {name: float(seconds) for name, _, seconds in (text.rpartition("=") for text in given.beside)}
    with drawing():
        _draw(rounds, others).savefig(given.picture, dpi=150, facecolor="white")


def _draw(rounds: list[dict[str, Any]], others: dict[str, float]) -> Figure:
    seconds = [record["seconds"] for record in rounds]
    minutes = [total / 60 for total in itertools.accumulate(seconds)]
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    everyone = [(when, 100 * record["all"]["accuracy"]) for when, record in zip(minutes, rounds, strict=True)
                if record["all"]]  # fmt: skip
    left.plot(*zip(*everyone, strict=True), "o-", color=COLOURS[0], markersize=4)
    left.set(xlabel="minutes of rounds", ylabel="accuracy of all clients (%)", xlim=(0, None))
    numbers = [record["round"] for record in rounds]
    right.plot(numbers, seconds, ".", color=COLOURS[0], markersize=3)
    right.set(xlabel="round", ylabel="seconds", yscale="log", xlim=(0, numbers[-1]))
    # Plain numbers, few enough to read: what such an axis writes by itself is mathematics, which is not drawn here.
    ticks = [base * unit for unit in (0.01, 0.1, 1, 10) for base in (1, 2, 5)]
    lowest, highest = (edge(*seconds, *others.values()) for edge in (min, max))
    right.set_yticks([tick for tick in ticks if lowest / 1.5 <= tick <= 1.5 * highest])
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_formatter(NullFormatter())
    for colour, (name, value) in zip(COLOURS[1:], others.items(), strict=False):
        right.axhline(value, color=colour, linestyle="--")
        right.annotate(name, (numbers[-1], value), ha="right", va="bottom", fontsize=8)
    return figure


if __name__ == "__main__":
    main()
