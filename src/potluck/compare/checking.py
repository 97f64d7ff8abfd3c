"""Finding out before hours of work whether every run of a comparison can begin."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from potluck.config import RunConfig
from potluck.engines import find_devices
from potluck.experiment import make_federation


def check(configs: Iterable[RunConfig]) -> torch.device:
    """Make each kind of federation once, without running it, so that what does not fit is said now; the device.

    Seeds, and the values of an algorithm's own settings, which are validated already, make no other kind.
    """
    device = torch.device("cpu")
    seen = set()
    for config in configs:
        device = find_devices(config.device)[0]
        kind = config.model_copy(update={"seed": 0, "algorithm": {"name": config.algorithm["name"]}})
        if kind.model_dump_json() not in seen:
            seen.add(kind.model_dump_json())
            # Not on a GPU: its memory is for those who will work there.
            elsewhere = {} if device.type == "cpu" else {"device": "cpu", "precision": "auto"}
            make_federation(config.model_copy(update=elsewhere), None)
    return device
