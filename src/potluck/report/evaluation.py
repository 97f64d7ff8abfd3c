"""What a reader has to know about how a method is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from potluck import algorithms
from potluck.errors import ConfigError


def evaluation_note(methods: Iterable[Mapping[str, Any]]) -> str:
    """That accuracy is measured after local training, of methods that others measure by their one global model.

    Args:
        methods: Names and settings of algorithms, as in the table ``algorithm`` of a configuration.

    >>> evaluation_note([{"name": "fedavg"}, {"name": "fedprox", "mu": 0.1}, {"name": "fedproto"}])[:46]
    'FedAvg and FedProx are evaluated after local t'
    >>> evaluation_note([{"name": "fedproto"}])
    ''
    """
    titles = list(dict.fromkeys(title for method in methods if (title := _with_a_global_model(method))))
    if not titles:
        return ""
    named = " and ".join([", ".join(titles[:-1]), titles[-1]] if len(titles) > 1 else titles)
    are = "are" if len(titles) > 1 else "is"
    return f"{named} {are} evaluated after local training; other libraries often evaluate the averaged model."


def _with_a_global_model(method: Mapping[str, Any]) -> str | None:
    """The title of a method that averages whole models; None for any other, and for one that is not known here."""
    try:
        made = algorithms.algorithm(method["name"], {key: value for key, value in method.items() if key != "name"})
    except ConfigError:
        return None
    return made.title if {"body", "head"} <= set(made.shared) else None
