"""Writing TOML: flat values, and one level of tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_toml(content: Mapping[str, Any]) -> str:
    """TOML text of plain values and tables of plain values; what is ``None`` is left out.

    >>> print(to_toml({"seed": 0, "out": None, "algorithm": {"name": "pfedes", "mu": 0.1}}), end="")
    seed = 0
    <BLANKLINE>
    [algorithm]
    name = "pfedes"
    mu = 0.1
    """
    plain = {key: value for key, value in content.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in content.items() if isinstance(value, Mapping)}
    lines = [f"{key} = {_value(value)}" for key, value in plain.items() if value is not None]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # A JSON string is a valid TOML string, but for one control character that JSON leaves alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"{value!r} cannot be written as TOML.")
