"""How an algorithm states what can be set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field


def setting(
    default: Any, description: str, *, paper: str = "not said", values: Sequence[float] = (), **limits: Any
) -> Any:
    """A setting of an algorithm.

    Args:
        default: Its value where a user gives none.
        description: What it is, in a few words.
        paper: The values that the algorithm's paper used, in words.
        values: Those of them that are numbers and not the default; ``potluck tune`` searches around all of them.
        **limits: Its range, as for pydantic's ``Field``: ``gt``, ``ge``, ``lt``, ``le``.
    """
    return Field(default, description=description, json_schema_extra={"paper": paper, "values": list(values)}, **limits)
