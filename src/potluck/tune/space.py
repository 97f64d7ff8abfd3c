"""Where to look: the ranges of a method's settings, from what it declares, or as asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from potluck import algorithms
from potluck.config import parse_assignment
from potluck.errors import ConfigError

_RANGE = re.compile(r"\s*(-?[0-9.eE+-]+?)\s*\.\.\s*(-?[0-9.eE+-]+?)\s*")


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``log`` where their order of magnitude is looked for."""

    low: float
    high: float
    log: bool
    whole: bool

    def tidy(self, value: float) -> float | int:
        """A value of the range that is short enough to be read and written again."""
        if self.whole:
            return int(value)
        return min(max(float(f"{value:.3g}"), self.low), self.high)


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]

    def tidy(self, value: Any) -> Any:
        """The value itself."""
        return value


Space = Mapping[str, Range | Choice]


def declared(method: str, learning_rate: float) -> dict[str, Range | Choice]:
    """The space of a method's own settings that are numbers.

    A share with two bounds is looked for between them. Any other number is looked for around its default and the values
    of its paper: by its order of magnitude from a tenth to ten times, and a whole number from half to double, within
    its bounds, which for whole numbers only keep out what no machine could run. Settings in words choose between
    variants of a method, and stay as they are.

    Args:
        method: Name of the algorithm.
        learning_rate: The run's own, which stands for learning rates without a default.
    """
    found = {}
    for name, field in algorithms.find(method).model_fields.items():
        kinds = {field.annotation, *get_args(field.annotation)}
        if bool not in kinds and kinds & {int, float}:
            space = _around(field, int in kinds, learning_rate)
            if space.low < space.high:
                found[f"algorithm.{name}"] = space
    return dict(found)


def _around(field: FieldInfo, whole: bool, fallback: float) -> Range:
    low, high, inside = _bounds(field, whole)
    if low is not None and high is not None and not whole:
        return Range(low + inside[0], high - inside[1], log=False, whole=whole)
    more: Any = field.json_schema_extra or {}
    known = [value for value in [field.default, *more.get("values", ())] if value is not None and value > 0]
    known = known or [fallback]
    if whole:
        lowest = max(1, int(min(known)) // 2, int(low or 0))
        highest = int(max(known)) * 2 if high is None else min(int(max(known)) * 2, int(high))
        return Range(lowest, max(highest, lowest), log=True, whole=True)
    least, most = float(f"{min(known) / 10:.6g}"), float(f"{max(known) * 10:.6g}")
    return Range(max(least, low or 0), most if high is None else min(most, high), log=True, whole=False)


def _bounds(field: FieldInfo, whole: bool) -> tuple[float | None, float | None, tuple[float, float]]:
    """The bounds of a setting, and how far to stay inside of those that are not in the range themselves."""
    limits: dict[type, Any] = {type(limit): limit for limit in field.metadata if type(limit) in (Ge, Gt, Le, Lt)}
    step = 1 if whole else 0.01
    low = limits[Ge].ge if Ge in limits else limits[Gt].gt if Gt in limits else None
    high = limits[Le].le if Le in limits else limits[Lt].lt if Lt in limits else None
    return low, high, (step if Gt in limits else 0, step if Lt in limits else 0)


def parse_spaces(texts: Iterable[str]) -> dict[str, Range | Choice]:
    """Ranges and choices as asked for; a range over a factor of ten or more is looked for by order of magnitude.

    >>> parse_spaces(["algorithm.mu=0.1..0.5", "optimizer=sgd,adam"])["optimizer"]
    Choice(values=('sgd', 'adam'))
    """
    found: dict[str, Range | Choice] = {}
    for text in texts:
        key, equals, values = (part.strip() for part in text.partition("="))
        space = _range(text, values) if ".." in values and "," not in values else _choice(key, values)
        if not equals or not key or space is None:
            raise ConfigError(f"--space {text!r} is neither key=low..high nor key=a,b,c: --space algorithm.mu=0.1..0.5")
        if key in found:
            raise ConfigError(f"--space {key} is given twice.")
        found[key] = space
    return found


def _range(text: str, values: str) -> Range | None:
    match = _RANGE.fullmatch(values)
    try:
        low, high = (float(number) for number in match.groups()) if match else (0.0, 0.0)
    except ValueError:
        return None
    if not low < high or high == float("inf"):
        if match:
            raise ConfigError(f"--space {text!r}: a range goes upwards, from a number to a greater one.")
        return None
    whole = match is not None and all(re.fullmatch(r"-?[0-9]+", number) for number in match.groups())
    return Range(low, high, log=low > 0 and high / low >= 10, whole=whole)


def _choice(key: str, values: str) -> Choice | None:
    parts = [part.strip() for part in values.split(",")]
    if not key or not all(parts):
        return None
    return Choice(tuple(parse_assignment(f"{key}={part}")[1] for part in parts))
