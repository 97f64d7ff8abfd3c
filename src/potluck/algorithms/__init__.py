"""The algorithms, one file per paper; this page finds them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from potluck.algorithms.base import Algorithm, Need
from potluck.algorithms.declaring import check_declared
from potluck.algorithms.fd import FD
from potluck.algorithms.fedapen import FedAPEN
from potluck.algorithms.fedavg import FedAvg
from potluck.algorithms.fedclassavg import FedClassAvg
from potluck.algorithms.fedgh import FedGH
from potluck.algorithms.fedkd import FedKD
from potluck.algorithms.fedproto import FedProto
from potluck.algorithms.fedprox import FedProx
from potluck.algorithms.fedtgp import FedTGP
from potluck.algorithms.fml import FML
from potluck.algorithms.ktpfl import KTPFL
from potluck.algorithms.lgfedavg import LGFedAvg
from potluck.algorithms.pfedafm import PFedAFM
from potluck.algorithms.pfedes import PFedES
from potluck.algorithms.settings import setting
from potluck.algorithms.standalone import Standalone
from potluck.algorithms.uploads import State, Upload, mean
from potluck.errors import ConfigError, nearest
from potluck.settings import explain

__all__ = ["Algorithm", "Need", "State", "Upload", "algorithm", "find", "mean", "names", "register", "setting"]

_KNOWN: dict[str, type[Algorithm]] = {}


def register(kind: type[Algorithm]) -> type[Algorithm]:
    """Make an algorithm known by its ``name``; also usable as a decorator on one of your own."""
    if not (isinstance(kind, type) and issubclass(kind, Algorithm)):
        raise ConfigError(f"only a subclass of potluck.Algorithm can be registered, not {kind!r}.")
    check_declared(kind)
    before = _KNOWN.get(kind.name)
    if kind.name != kind.name.lower() or not kind.name.replace("-", "").isalnum():
        raise ConfigError(f"an algorithm cannot be called {kind.name!r}: use small letters, digits and hyphens.")
    # Running a notebook's cell again is no second algorithm of the same name.
    if before is not None and (before.__module__, before.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ConfigError(
            f"there is an algorithm called {kind.name!r} already: {before.__module__}.{before.__qualname__}."
        )
    _KNOWN[kind.name] = kind
    return kind


_OURS = (
    *(Standalone, FedAvg, FedProx, LGFedAvg, PFedES, FedGH, PFedAFM, FedClassAvg),
    *(FML, FedKD, FedAPEN, FD, FedProto, FedTGP, KTPFL),
)
for _kind in _OURS:
    register(_kind)


def known() -> list[str]:
    """The names of all known algorithms, simple ones first; yours come last."""
    return list(_KNOWN)


def names() -> list[str]:
    """The names of all known algorithms."""
    return sorted(_KNOWN)


def find(name: str) -> type[Algorithm]:
    """The algorithm called ``name``."""
    if name.lower() not in _KNOWN:
        raise ConfigError(nearest(name, _KNOWN, "algorithm"))
    return _KNOWN[name.lower()]


def algorithm(name: str, settings: Mapping[str, Any] | None = None) -> Algorithm:
    """The algorithm called ``name``, with validated settings.

    >>> algorithm("pfedes", {"mu": 0.3}).mu
    0.3
    >>> algorithm("pfedes", {"mu": 0.8})
    Traceback (most recent call last):
    potluck.errors.ConfigError: algorithm.mu: 0.8 is not less than or equal to 0.5 ...
    """
    kind = find(name)
    try:
        return kind.model_validate(dict(settings or {}))
    except ValidationError as error:
        raise ConfigError(explain(error, kind, "algorithm.")) from error
