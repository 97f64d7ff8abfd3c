"""TOML that is written is read back as it was, by Python's own reader."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.run.toml import to_toml

KEYS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
# All that can be encoded: quotes, backslashes, control characters, line ends and what is beyond 16 bits.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
PLAIN = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXTS, st.just("\x7f\x00\r\n\"'\\")
)
VALUES = PLAIN | st.lists(PLAIN, max_size=4) | st.lists(st.lists(PLAIN, max_size=2), max_size=2)


@given(st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=5), max_size=8))
def test_round_trip(content: dict[str, Any]) -> None:
    read = tomllib.loads(to_toml(content))
    assert read == content
    assert _types(read) == _types(content)


def _types(value: Any) -> Any:
    """``True``, 1 and 1.0 are equal, and yet not the same."""
    if isinstance(value, dict):
        return {key: _types(inner) for key, inner in value.items()}
    return [_types(inner) for inner in value] if isinstance(value, list) else type(value)


def test_nothing_is_left_out_and_tuples_are_lists() -> None:
    assert to_toml({"a": None, "b": (0.9, 0.999), "t": {"c": None}}) == "b = [0.9, 0.999]\n\n[t]\n"


def test_what_is_not_plain_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be written as TOML"):
        to_toml({"a": object()})
