"""How settings are validated: an unknown key, a wrong type or a value out of range is an error that names the key."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from potluck.errors import nearest


def explain(error: ValidationError, kind: type[BaseModel], prefix: str = "") -> str:
    """One clear message for the first thing wrong with the settings of ``kind``, keys written with ``prefix``."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        return nearest(prefix + key, [prefix + field for field in kind.model_fields], "setting")
    field = kind.model_fields.get(name)
    meaning = f" ({name}: {field.description})" if field and field.description else ""
    reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if first["type"] == "value_error":
        return f"{prefix}{key}: {reason}{meaning}"
    reason = reason.replace("should be", "is not", 1)
    return f"{prefix}{key}: {first['input']!r} {reason}{meaning}."
