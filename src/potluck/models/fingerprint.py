"""A short string that says of what architecture a network is, whatever its weights are."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any

import torch
from torch import nn

_DEPTH = 6
_OWN = set(vars(nn.Module())) - {"_forward_hooks", "_forward_pre_hooks"}
"""What every module has; weights and sub-modules are covered by name, and hooks take part in what a network does."""


def fingerprint(model: nn.Module) -> str:
    """Name the architecture of ``model``: equal for two networks that differ in their weights alone.

    It covers the tree of modules, the class and every attribute of each, and the name, shape, type and sharing of
    every parameter and buffer. Weights, device, training mode and ``requires_grad`` do not count. Of an attribute that
    cannot be written down (an open file, a lock) only its type counts.

    >>> fingerprint(nn.Linear(3, 2)) == fingerprint(nn.Linear(3, 2))
    True
    >>> fingerprint(nn.Linear(3, 2)) == fingerprint(nn.Linear(3, 2, bias=False))
    False
    """
    lines = [f"{name}: {_describe(module)}" for name, module in model.named_modules(remove_duplicate=False)]
    first: dict[int, str] = {}  # the same tensor under a second name is a tie between the two: another architecture
    tensors = itertools.chain(
        model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)
    )
    for name, tensor in tensors:
        owner = first.setdefault(id(tensor), name)
        lines.append(f"{name} is {owner}: {tuple(tensor.shape)} {tensor.dtype}")
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


def _describe(module: nn.Module) -> str:
    attributes = {name: _value(value, _DEPTH) for name, value in sorted(vars(module).items()) if name not in _OWN}
    return f"{_name(type(module))} {attributes}"


def _value(value: Any, depth: int) -> str:
    """A value as text: the same for equal values, and for no others."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | Enum):
        return repr(value)
    if depth == 0:
        return _written(value)
    if isinstance(value, torch.Tensor):
        numbers = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        content = hashlib.blake2b(numbers, digest_size=16).hexdigest()
        return f"tensor {tuple(value.shape)} {value.dtype} {content}"
    if isinstance(value, torch.dtype | torch.device | torch.Size | torch.memory_format):
        return str(value)
    if isinstance(value, type | types.BuiltinFunctionType):
        return _name(value)
    if isinstance(value, types.MethodType):
        return f"{_value(value.__func__, depth - 1)} of {_value(value.__self__, depth - 1)}"
    if isinstance(value, types.FunctionType):
        bound = [cell.cell_contents for cell in value.__closure__ or ()]
        parts = [_value(part, depth - 1) for part in (bound, value.__defaults__, value.__kwdefaults__)]
        return f"{_name(value)} {value.__code__.co_code.hex()} {value.__code__.co_names} {_constants(value)} {parts}"
    if isinstance(value, nn.Module):
        return f"network {fingerprint(value)}"
    if isinstance(value, Mapping):
        return str([(_value(key, depth - 1), _value(item, depth - 1)) for key, item in value.items()])
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} {[_value(item, depth - 1) for item in value]}"
    if isinstance(value, set | frozenset):
        return f"set {sorted(_value(item, depth - 1) for item in value)}"
    if hasattr(value, "__dict__"):
        return f"{_name(type(value))} {_value(vars(value), depth - 1)}"
    return _written(value)


def _written(value: Any) -> str:
    """What pickle would write of a value; nothing is ever read back."""
    try:
        content = hashlib.blake2b(pickle.dumps(value, protocol=4), digest_size=16).hexdigest()
    except Exception:
        content = "not to be written"
    return f"{_name(type(value))} {content}"


def _constants(function: types.FunctionType) -> list[str]:
    """The constants in a function's code; code within it, such as a lambda, by its own instructions."""
    return [
        f"{item.co_code.hex()} {item.co_names}" if isinstance(item, types.CodeType) else repr(item)
        for item in function.__code__.co_consts
    ]


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
