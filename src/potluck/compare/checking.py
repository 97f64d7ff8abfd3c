"""Finding out before hours of work whether every run of a comparison can begin, or go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from potluck.compare.places import Place
from potluck.config import RunConfig
from potluck.contract import Task
from potluck.data import sources
from potluck.engines import find_devices
from potluck.errors import DataError, RunError
from potluck.experiment import make_federation, warnings_afterwards
from potluck.run.inputs import NAME, Inputs, digest


@warnings_afterwards()
def check(configs: Iterable[RunConfig]) -> torch.device:
    """Make each kind of federation once, without running it, so that what does not fit is said now; the device.

    Seeds and an algorithm's own settings make no other kind; whether such settings fit is checked for all.
    """
    device = torch.device("cpu")
    tasks: dict[str, Task] = {}
    for config in configs:
        device = find_devices(config.device)[0]
        kind = config.model_copy(update={"seed": 0, "algorithm": {"name": config.algorithm["name"]}}).model_dump_json()
        if kind not in tasks:
            # Not on a GPU: its memory is for those who will work there.
            elsewhere = {} if device.type == "cpu" else {"device": "cpu", "precision": "auto"}
            tasks[kind] = make_federation(config.model_copy(update=elsewhere), None).task
        config.method().check_task(tasks[kind])
    return device


class DataCheck:
    """Takes up runs that are there already only if their data set is still the one they were made with."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, str | None], str | None] = {}

    def __call__(self, places: Sequence[Place]) -> list[str]:
        """Raise where a run that was begun, or is finished, has other data than it would have now.

        Returns:
            What there is to say: where the data set is not on this machine, nothing can be checked.
        """
        remarks = []
        for place in places:
            if not place.begun:
                continue
            config = place.cell.config
            now = self._digest(config.data, config.data_dir)
            before = Inputs.read(place.path)
            if before is None:
                raise RunError(
                    f"{place.path} has no {NAME}, which says with which data it was made: that they are still the "
                    "same cannot be checked. Remove it to run it again, or give another --out."
                )
            if now is None:
                remarks.append(f"Whether runs on {config.data} used its present content is unknown: it is not here.")
            elif before.common.get("data set") != now:
                raise RunError(
                    f"{place.path} was made with other data: {config.data} has changed since. Put the data set back as "
                    "it was, remove the run to make it again, or give another --out."
                )
        return list(dict.fromkeys(remarks))

    def _digest(self, data: str, data_dir: str | None) -> str | None:
        """The digest of a data set; None where it is not at hand."""
        if (data, data_dir) not in self._digests:
            try:
                source = sources.load(data, data_dir)
            except DataError:
                self._digests[data, data_dir] = None
            else:
                self._digests[data, data_dir] = digest(source.x, source.y)
        return self._digests[data, data_dir]
