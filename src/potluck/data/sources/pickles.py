"""Reading pickles without running anything: numbers, text, bytes, lists, dictionaries and arrays of bytes alone.

A pickle is a program that may call any function. Here the only names it may call are those that NumPy writes for an
array, and what they reach are stand-ins that hold values: no code that the file chooses is ever run.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np

from potluck.errors import DataError


def unpickle(content: bytes, what: str, remedy: str) -> Any:
    """The value that was pickled; text that Python 2 wrote comes as bytes.

    Args:
        content: The pickle.
        what: How to call the file in a message.
        remedy: What to do where it is damaged: a sentence for the error message.

    Raises:
        DataError: It is damaged, or holds anything but arrays of bytes, bytes, str, int, list and dict.

    >>> unpickle(pickle.dumps({b"labels": [3, 1]}), "the file", "Fetch it")
    {b'labels': [3, 1]}
    """
    try:
        value = _Reader(io.BytesIO(content), encoding="bytes").load()
        return _plain(value)
    except Exception as error:  # a damaged pickle can raise any kind
        raise DataError(f"{what} is no pickle of arrays, lists and numbers ({error}). {remedy}.") from error


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What stands in for a name; all others are refused."""
        if (module, name) in _STAND_INS:
            return _STAND_INS[module, name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


class _Kind:
    """In place of numpy.dtype: the type of an array's values."""

    def __init__(self, code: Any = None, *_more: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        """Take no notice: a byte has no order of bytes."""


class _Array:
    """In place of numpy.ndarray, and of the function that makes one: what the pickle says of an array."""

    def __init__(self, *_made_from: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def values(self) -> np.ndarray:
        """The array, if it is one of bytes."""
        _version, shape, kind, by_columns, content = self.state
        if not isinstance(kind, _Kind) or kind.code not in ("u1", b"u1"):
            raise ValueError("it holds an array that is not of bytes")
        if not isinstance(content, bytes) or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError("it holds an array without values")
        if math.prod(shape) != len(content):
            raise ValueError("it holds an array whose shape does not fit its values")
        flat = np.frombuffer(content, dtype=np.uint8)
        return flat.reshape(shape[::-1]).T if by_columns else flat.reshape(shape)


# Classes alone: a pickle can set the attributes of a function, and so what it does for the next file.
_STAND_INS: dict[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
}


def _plain(value: Any) -> Any:
    """The value with arrays in place of stand-ins; one level of a dictionary is all that a data set needs."""
    if isinstance(value, dict):
        return {_leaf(key): _plain_entry(entry) for key, entry in value.items()}
    return _plain_entry(value)


def _plain_entry(value: Any) -> Any:
    return [_leaf(entry) for entry in value] if isinstance(value, list) else _leaf(value)


def _leaf(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.values()
    if type(value) in (bytes, str, int):
        return value
    raise ValueError(f"it holds a {type(value).__name__} where a number or text should be")
