"""Randomness as a pure function: every draw is a hash of what it is for.

A *key* is a 64-bit integer made by folding words and numbers into a seed. A draw hashes a key with an index,
in integer tensor operations alone, so that it is the same on every device and engine, for any padding and in any
order, and nothing has to be saved for a resume:

>>> key = fold(0, "order", 3, 17)            # seed 0, what for, round 3, client 17
>>> permutation(key, 5).tolist()
[4, 0, 3, 1, 2]

The hash is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_GENERATOR = threading.RLock()
"""PyTorch's initialisers draw from one global generator: one thread at a time."""


def _signed(value: int) -> int:
    """The int64 with the same 64 bits as ``value``."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def _mix_int(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)


def _mix(value: Tensor) -> Tensor:
    # int64 multiplication wraps; its right shift keeps the sign, so the high bits are masked away.
    value = (value ^ ((value >> 30) & ((1 << 34) - 1))) * _signed(_FIRST)
    value = (value ^ ((value >> 27) & ((1 << 37) - 1))) * _signed(_SECOND)
    return value ^ ((value >> 31) & ((1 << 33) - 1))


@lru_cache(1024)
def _number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def fold(key: int, *words: str | int) -> int:
    """Make a new key from ``key`` and what the draw is for.

    >>> fold(0, "order", 1) == fold(fold(0, "order"), 1), fold(0, 1) == fold(1, 0)
    (True, False)
    """
    for word in words:
        number = _number(word) if isinstance(word, str) else word
        key = _mix_int(_mix_int(key + _GOLDEN) + (number + 1) * _GOLDEN)
    return _signed(key)


def spread(key: int | Tensor, index: Tensor | int) -> Tensor:
    """One key per element of ``index``, from one key or from keys that broadcast with ``index``."""
    if isinstance(index, int):
        # A plain number never becomes a tensor of its own: copying one to a GPU would wait for it.
        return _mix(torch.as_tensor(key) + _signed((index + 1) * _GOLDEN))
    return _mix(key + (index.to(torch.int64) + 1) * _signed(_GOLDEN))


def uniform(keys: Tensor, stream: int | Tensor = 0) -> Tensor:
    """One number in [0, 1) per key; each ``stream`` is another independent draw.

    The number has 24 bits, so that it is the same in float32 and in float64.
    """
    bits = (spread(keys, stream) >> 40) & ((1 << 24) - 1)
    return bits.to(torch.float32) / (1 << 24)


def permutation(key: int | Tensor, size: int, device: torch.device | None = None) -> Tensor:
    """A random order of ``range(size)``; of several keys, one in each row.

    >>> torch.equal(permutation(torch.tensor([1, 2]), 5)[1], permutation(2, 5))
    True
    """
    keys = key.unsqueeze(-1) if isinstance(key, Tensor) else key
    return torch.argsort(spread(keys, torch.arange(size, device=device)), stable=True)


def shares(key: int, concentration: float, rows: int, columns: int) -> Tensor:
    """Draws from a symmetric Dirichlet distribution: each row of the result sums to 1, in float64.

    >>> [round(total, 9) for total in shares(0, 0.5, rows=2, columns=3).sum(1).tolist()]
    [1.0, 1.0]
    """
    # NumPy promises that RandomState, unlike its newer generators, never changes what it draws.
    source = np.random.RandomState(np.random.Philox(key=key & _MASK))
    # Gamma(a) is Gamma(a + 1) times a uniform number to the power of 1 / a, which may be too small for a float.
    size = rows, columns
    logs = (
        np.log(source.standard_gamma(concentration + 1, size)) + np.log1p(-source.random_sample(size)) / concentration
    )
    parts = np.exp(logs - logs.max(1, keepdims=True))
    return torch.from_numpy(parts / parts.sum(1, keepdims=True))


@contextmanager
def initial_weights(key: int) -> Iterator[None]:
    """Let PyTorch's own initialisers draw from ``key``, and put the global generator back afterwards."""
    with _GENERATOR, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key)
        yield
