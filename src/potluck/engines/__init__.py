"""Where and how clients execute. Every engine runs every algorithm unchanged, with the same result."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import torch

from potluck.engines.base import Engine, Job, Outcome, Setting
from potluck.engines.loop import Loop
from potluck.engines.spread import Spread
from potluck.engines.stacked import Stacked
from potluck.errors import ConfigError, nearest

__all__ = ["Engine", "Job", "Outcome", "Setting", "find_devices", "free_forgotten", "make_engine"]

_KNOWN: dict[str, type[Engine]] = {"loop": Loop, "stacked": Stacked}


def make_engine(name: str, setting: Setting, devices: Sequence[torch.device] = ()) -> Engine:
    """The engine called ``name``; ``auto`` is the fastest for the device: stacked on a GPU, loop on a CPU.

    Args:
        name: Of the engine.
        setting: What the clients have in common.
        devices: Where it runs, if that is more than the device of the setting: clients are then spread over them.
    """
    if name == "auto":
        # On a CPU, stacking clients has been slower wherever it was tried.
        name = "stacked" if setting.device.type == "cuda" else "loop"
    if name not in _KNOWN:
        raise ConfigError(nearest(name, (*_KNOWN, "auto"), "engine"))
    return Spread(setting, devices, _KNOWN[name]) if len(devices) > 1 else _KNOWN[name](setting)


def find_devices(names: str) -> list[torch.device]:
    """The devices called ``names``, with commas between them; ``auto`` is a GPU if there is one.

    >>> find_devices("cpu"), find_devices("cpu, cpu")
    ([device(type='cpu')], [device(type='cpu'), device(type='cpu')])
    """
    devices = [_find_device(name.strip()) for name in names.split(",")]
    if len({device.type for device in devices}) > 1:
        raise ConfigError(f"device {names!r} mixes CPUs and GPUs, whose numbers are rounded in different ways.")
    return devices


def free_forgotten(device: torch.device) -> None:
    """Free what federations hold on a GPU that nobody has any more: they and their clients know each other."""
    if device.type == "cuda":
        gc.collect()


def _find_device(name: str) -> torch.device:
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
