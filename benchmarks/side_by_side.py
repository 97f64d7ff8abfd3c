"""How much longer do runs take that start at once? Time to the first recorded round, beside that of one run alone.

    python -m benchmarks.side_by_side [--runs 5] [--repeats 3] [-- ARGUMENTS OF potluck run]

One run alone and several at once start in turn, each as a process of its own, and are ended once all have recorded a
round. Runs that share the cores without a loss need as many times as long as there are runs where one alone uses all
cores, and less where it does not; processor time beyond that of one alone is what they lose to each other.

Environment variables such as ``OMP_NUM_THREADS`` pass on to the runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

_RUN = "pfedes --clients 10 --models cnn-1..5 --rounds 2 --set batch_size=512 --set algorithm.extractor_epochs=1"


class _Times(NamedTuple):
    """Seconds until each run has recorded a round, in order, and those of a processor that one has used by then."""

    until: list[float]
    used: float


def main() -> None:
    """Measure, in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="how many start at once")
    parser.add_argument("--repeats", type=int, default=3, help="how often each way is measured")
    parser.add_argument("arguments", nargs="*", default=_RUN.split(), help=f"of potluck run; by default {_RUN}")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores; potluck run {' '.join(given.arguments)}")
    alone: list[_Times] = []
    beside: list[_Times] = []
    for number in range(1, given.repeats + 1):
        alone.append(_first_rounds(1, given.arguments))
        beside.append(_first_rounds(given.runs, given.arguments))
        ratios = " ".join(f"{seconds / alone[-1].until[0]:.2f}" for seconds in beside[-1].until)
        print(f"{number}: alone {alone[-1].until[0]:.1f} s; {given.runs} at once, times as long: {ratios}", flush=True)
    base = statistics.median(times.until[0] for times in alone)
    print(f"medians: alone {base:.1f} s; {given.runs} at once, times as long: ", end="")
    first, last = (statistics.median(times.until[place] for times in beside) for place in (0, -1))
    used = statistics.median(times.used for times in beside) / statistics.median(times.used for times in alone)
    print(f"first {first / base:.2f}, last {last / base:.2f}; each {used:.2f} times as much processor time")


def _first_rounds(runs: int, arguments: list[str]) -> _Times:
    """Start runs, and end them when all have recorded a round."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, str(number)) for number in range(runs)]
        begin = time.perf_counter()
        processes = [_start(place, arguments) for place in places]
        try:
            until: dict[Path, float] = {}
            while len(until) < runs:
                time.sleep(0.02)
                for place, process in zip(places, processes, strict=True):
                    if place not in until and _recorded(place):
                        until[place] = time.perf_counter() - begin
                    elif place not in until and process.poll() is not None:
                        sys.exit(f"a run ended before its first round: {Path(f'{place}.txt').read_text()}")
        finally:
            for process in processes:
                process.kill()
            used = [os.wait4(process.pid, 0)[2] for process in processes if process.returncode is None]
    return _Times(list(until.values()), statistics.mean(usage.ru_utime + usage.ru_stime for usage in used))


def _start(place: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "potluck", "run", *arguments, "--out", str(place)]
    with Path(f"{place}.txt").open("wb") as said:
        return subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)


def _recorded(place: Path) -> bool:
    records = place / "rounds.jsonl"
    return records.exists() and b"\n" in records.read_bytes()


if __name__ == "__main__":
    main()
