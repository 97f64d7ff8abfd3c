"""How settings are validated: an unknown key, a wrong type or a value out of range is an error that names the key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

MOST = 1_000_000
"""Upper limit of what is counted in rounds, epochs or steps: more would not end, and is a mistake."""
_SHOWN = 100
"""At most this many letters of an invalid value are shown in a message."""


class Settings(BaseModel):
    """Validated settings, each with a type, a range and a description."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true and false for a number or a word: Python would take them for 1 and 0."""
        given = value if isinstance(value, list | tuple) else [value]
        switches = [each for each in given if isinstance(each, bool)]
        if switches and not _takes_switches(cls.model_fields[str(info.field_name)].annotation):
            raise ValueError(f"{str(switches[0]).lower()} is not a valid value")
        return value


def _takes_switches(annotation: Any) -> bool:
    known = annotation in (bool, Any, object) or isinstance(annotation, bool)
    return known or any(map(_takes_switches, get_args(annotation)))


def explain(error: ValidationError, kind: type[BaseModel], prefix: str = "") -> str:
    """One clear message for the first thing wrong with the settings of ``kind``, keys written with ``prefix``."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden" and not kind.model_fields:
        return f"unknown setting {prefix + key!r}: this algorithm has none of its own."
    if first["type"] == "extra_forbidden":
        return unknown(prefix + key, kind, prefixes=[prefix])
    field = kind.model_fields.get(name)
    meaning = f" ({field.description})" if field and field.description else ""
    if first["type"] == "missing":
        return f"{prefix}{key} is missing{meaning}."
    reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if first["type"] == "value_error":
        if not key:  # several settings that do not go together
            return f"{prefix.rstrip('.')}: {reason.rstrip('.')}.".removeprefix(": ")
        return f"{prefix}{key}: {reason.rstrip('.')}{meaning}."
    reason = reason.replace("should be", "is not", 1)
    given = repr(first["input"])
    given = given if len(given) <= _SHOWN else f"{given[:_SHOWN]}..."
    return f"{prefix}{key}: {given}{' ' if reason.startswith('is ') else ': '}{reason}{meaning}."


def unknown(name: str, *kinds: type[BaseModel], prefixes: Sequence[str] = ("", "")) -> str:
    """Say that no settings of these kinds are called so, with the nearest that may be meant.

    A setting is also found by a word of its description, for papers call it by another name: ``lambda``.
    """
    fields = {
        f"{prefix}{field}": each
        for prefix, kind in zip(prefixes, kinds, strict=False)
        for field, each in kind.model_fields.items()
    }
    listed = f"Known: {', '.join(sorted(fields))}."
    asked = name.rpartition(".")[2].lower()
    last = {key.rpartition(".")[2]: key for key in reversed(fields)}
    if close := get_close_matches(asked, last, n=1, cutoff=0.5):
        return f"unknown setting {name!r}: did you mean {last[close[0]]!r}? {listed}"
    for key, field in fields.items():
        words = re.findall(r"[a-z]{3,}", (field.description or "").lower())
        if get_close_matches(asked, words, n=1, cutoff=0.8):
            return f"unknown setting {name!r}: did you mean {key!r} ({field.description})? {listed}"
    return f"unknown setting {name!r}. {listed}"


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings under the keys that a user would write.

    >>> flat({"seed": 0, "algorithm": {"name": "pfedes", "mu": 0.1}})
    {'seed': 0, 'algorithm.name': 'pfedes', 'algorithm.mu': 0.1}
    """
    keys: dict[str, Any] = {}
    for key, value in settings.items():
        keys |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return keys


def is_shallow(value: Any, depth: int = 4) -> bool:
    """Whether a value is nested no more deeply than settings are.

    >>> is_shallow({"algorithm": {"betas": [0.9, 0.99]}}), is_shallow([[[[1]]]])
    (True, False)
    """
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return depth > 0 and all(is_shallow(each, depth - 1) for each in inner)
