"""Carrying out the runs of a comparison: in this process one after another, or in several side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from potluck.compare.places import Place
from potluck.compare.pool import Pool
from potluck.compare.working import Outcome, Stop, Tell, run_place

MOST_JOBS = 8
"""Runs side by side, if nothing else is asked: each takes memory for the data set and its clients."""
GPU_JOBS = 2
"""Runs side by side on one GPU, if nothing else is asked."""


def default_jobs(cells: int, device: torch.device) -> int:
    """How many runs go side by side; it does not depend on how many of the cells are left.

    On a CPU one per core: a run alone uses all cores as well, but its threads wait for each other now and then.
    """
    if device.type == "cuda":
        return min(cells, GPU_JOBS * (1 if device.index is not None else torch.cuda.device_count()))
    return min(cells, torch.get_num_threads(), MOST_JOBS)


def run_places(places: Sequence[Place], jobs: int, tell: Tell, stop: Stop) -> dict[Place, Outcome]:
    """Carry out runs, as many side by side as there are jobs; how each ended. What was not begun is not in it.

    A run that another process is working on is tried once more when all others are over.
    """
    outcomes: dict[Place, Outcome] = {}
    carry_out = _here if jobs == 1 else Pool(jobs)
    carry_out(places, tell, stop, outcomes)
    left = [place for place, outcome in outcomes.items() if outcome.verdict == "busy"]
    if left and not stop.asked:
        carry_out(left, tell, stop, outcomes)
    return outcomes


def _here(places: Sequence[Place], tell: Tell, stop: Stop, outcomes: dict[Place, Outcome]) -> None:
    for place in places:
        if stop.asked:
            return
        outcomes[place] = run_place(place, tell, stop)
        tell(place, {"event": "end", **outcomes[place]._asdict()})
