"""Potluck: model-heterogeneous personalized federated learning, where every client brings its own network.

>>> import potluck
>>> federation = potluck.Federation("pfedes", clients=clients, mu=0.1)     # doctest: +SKIP
>>> history = federation.run(rounds=50)                                      # doctest: +SKIP
>>> federation.predict(3, x)                                                 # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from potluck.algorithms import Algorithm
    from potluck.client import Client
    from potluck.contract import Batch, Group, Networks, Phase, Round, Task
    from potluck.errors import PotluckError
    from potluck.experiment import open_run
    from potluck.federation import Federation
    from potluck.payload import Payload
    from potluck.watching import Callback

_HOMES = {
    "Algorithm": "potluck.algorithms",
    "Batch": "potluck.contract",
    "Callback": "potluck.watching",
    "Client": "potluck.client",
    "Federation": "potluck.federation",
    "Group": "potluck.contract",
    "Networks": "potluck.contract",
    "Payload": "potluck.payload",
    "Phase": "potluck.contract",
    "PotluckError": "potluck.errors",
    "Round": "potluck.contract",
    "Task": "potluck.contract",
    "open_run": "potluck.experiment",
}

__all__ = [
    "Algorithm",
    "Batch",
    "Callback",
    "Client",
    "Federation",
    "Group",
    "Networks",
    "Payload",
    "Phase",
    "PotluckError",
    "Round",
    "Task",
    "open_run",
]


def __dir__() -> list[str]:
    """The public names, for whoever asks before they are loaded."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: ``import potluck`` alone imports nothing heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'potluck' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
