"""Where and how clients execute. Every engine runs every algorithm unchanged, with the same result."""

from __future__ import annotations

import torch

from potluck.engines.base import Engine, Job, Outcome, Setting
from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked
from potluck.errors import ConfigError, nearest

__all__ = ["Engine", "Job", "Outcome", "Setting", "find_device", "make_engine"]

_KNOWN: dict[str, type[Engine]] = {"loop": Loop, "stacked": Stacked}


def make_engine(name: str, setting: Setting) -> Engine:
    """The engine called ``name``; ``auto`` is the fastest for the device: stacked on a GPU, loop on a CPU."""
    if name == "auto":
        # On a CPU, stacking clients has been slower wherever it was tried.
        name = "stacked" if setting.device.type == "cuda" else "loop"
    if name not in _KNOWN:
        raise ConfigError(nearest(name, (*_KNOWN, "auto"), "engine"))
    return _KNOWN[name](setting)


def find_device(name: str) -> torch.device:
    """The device called ``name``; ``auto`` is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"unknown device {name!r}: give cpu, cuda, cuda:1 or auto.") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"unknown device {name!r}: give cpu, cuda, cuda:1 or auto.")
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        raise ConfigError(f"device {name!r} is not there: this machine has {count} usable GPUs. Give --device cpu.")
    return device
