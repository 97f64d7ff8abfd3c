"""How settings are validated: an unknown key, a wrong type or a value out of range is an error that names the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from potluck.errors import nearest


def explain(error: ValidationError, kind: type[BaseModel], prefix: str = "") -> str:
    """One clear message for the first thing wrong with the settings of ``kind``, keys written with ``prefix``."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden" and not kind.model_fields:
        return f"unknown setting {prefix + key!r}: this algorithm has none of its own."
    if first["type"] == "extra_forbidden":
        return nearest(prefix + key, [prefix + field for field in kind.model_fields], "setting")
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
    return f"{prefix}{key}: {first['input']!r} {reason}{meaning}."


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings under the keys that a user would write.

    >>> flat({"seed": 0, "algorithm": {"name": "pfedes", "mu": 0.1}})
    {'seed': 0, 'algorithm.name': 'pfedes', 'algorithm.mu': 0.1}
    """
    keys: dict[str, Any] = {}
    for key, value in settings.items():
        keys |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return keys
