"""A short string that says of what architecture a network is, whatever its weights are."""

from __future__ import annotations

import functools
import hashlib
import operator
import pickle
import sys
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

_DEPTH = 6
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_OWN = set(vars(nn.Module())) - set(_HOOKS)
"""What every module has; weights and sub-modules are covered by name, and hooks take part in what a network does."""


def fingerprint(model: nn.Module) -> str:
    """Name the architecture of ``model``: equal for two networks that differ in their weights alone.

    It covers the tree of modules, the class and every attribute of each, and the name, shape, type and sharing of
    every parameter and buffer. Weights, device, training mode and ``requires_grad`` do not count. A class counts by its
    name; one that is not to be found under it (made within a function, or defined again since) by what is in it. Of an
    attribute that cannot be written down (an open file, a lock) only its type counts. An attribute that holds
    parameters (``nn.LSTM`` keeps a list of its own) counts by their names, and a tensor that is computed from
    parameters (by weight or spectral normalisation, or pruning) by which one it is.

    >>> fingerprint(nn.Linear(3, 2)) == fingerprint(nn.Linear(3, 2))
    True
    >>> fingerprint(nn.Linear(3, 2)) == fingerprint(nn.Linear(3, 2, bias=False))
    False
    """
    return _hash("\n".join(_Writer().network(model)).encode())


class _Writer:
    """Writes down what a network is made of, each of its modules and classes once."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}
        self._weights: dict[int, str] = {}

    def network(self, model: nn.Module) -> list[str]:
        """A line for every module, parameter and buffer."""
        modules = list(model.named_modules(remove_duplicate=False))
        for name, module in modules:  # first of all: an attribute may lead back to any of them
            self._known.setdefault(id(module), f"module {len(self._known)} {name}")
        tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        for name, tensor in tensors:
            self._weights.setdefault(id(tensor), f"the weight {name}")
        lines = [f"{name}: {self._module(module)}" for name, module in modules]
        first: dict[int, str] = {}  # the same tensor under a second name is a tie between the two: another architecture
        for name, tensor in tensors:
            owner = first.setdefault(id(tensor), name)
            lines.append(f"{name} is {owner}: {tuple(tensor.shape)} {tensor.dtype}")
        return lines

    def _module(self, module: nn.Module) -> str:
        attributes = {
            # A hook's number counts all hooks there ever were.
            name: "computed"
            if _is_computed(module, name)
            else self._value(list(value.values()) if name in _HOOKS else value, _DEPTH)
            for name, value in sorted(vars(module).items())
            if name not in _OWN
        }
        return f"{self._class(type(module), _DEPTH)} {attributes}"

    def _class(self, kind: type, depth: int) -> str:
        name = _name(kind)
        if _is_found(kind) or depth == 0:
            return name
        if kind.__module__ == parametrize.__name__:
            # PyTorch makes such a class for each module, out of functions that know that module; what it computes
            # stands in the module's parametrizations.
            return f"{name} {[self._class(base, depth - 1) for base in kind.__bases__]}"
        if id(kind) not in self._known:
            self._known[id(kind)] = f"class {len(self._known)} {name}"
            bases = [self._class(base, depth - 1) for base in kind.__bases__]
            # Of what begins with two underscores Python adds some of its own, not the same in every version.
            held = {
                key: self._value(value, depth - 1)
                for key, value in sorted(vars(kind).items())
                if not key.startswith("__") or isinstance(value, types.FunctionType)
            }
            return f"{name} {bases} {held}"
        return self._known[id(kind)]

    def _value(self, value: Any, depth: int) -> str:
        """A value as text: the same for equal values, and for no others."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | Enum):
            return repr(value)
        if isinstance(value, nn.Module):
            return self._known.get(id(value)) or f"network {self.network(value)}"
        if isinstance(value, torch.Tensor) and id(value) in self._weights:
            return self._weights[id(value)]
        if isinstance(value, type):
            return self._class(value, depth)
        if depth == 0:
            return _written(value)
        if isinstance(value, torch.Tensor):
            return _tensor(value)
        if isinstance(value, torch.dtype | torch.device | torch.Size | torch.memory_format):
            return str(value)
        if isinstance(value, Mapping):
            return str([(self._value(key, depth - 1), self._value(item, depth - 1)) for key, item in value.items()])
        if isinstance(value, tuple | list):
            return f"{type(value).__name__} {[self._value(item, depth - 1) for item in value]}"
        if isinstance(value, set | frozenset):
            return f"set {sorted(self._value(item, depth - 1) for item in value)}"
        parts = _parts(value)
        if parts is None:
            return _written(value)
        return f"{self._class(type(value), depth - 1)} {[self._value(part, depth - 1) for part in parts]}"


def _is_computed(module: nn.Module, name: str) -> bool:
    """Whether an attribute is a tensor that a hook of PyTorch's computes from parameters before each pass.

    The parameters are called ``weight_g`` and ``weight_v`` (``weight_norm``), or ``weight_orig`` (``spectral_norm`` and
    pruning). What they were computed to last is no part of an architecture.
    """
    if not isinstance(vars(module)[name], torch.Tensor):
        return False
    held = module._parameters
    return f"{name}_orig" in held or (f"{name}_g" in held and f"{name}_v" in held)


def _parts(value: Any) -> list[Any] | None:
    """What something that is no plain value is made of; None where that cannot be told."""
    if isinstance(value, types.BuiltinFunctionType):
        return [_name(value)]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, types.FunctionType):
        bound = [_content(cell) for cell in value.__closure__ or ()]
        return [_name(value), value.__code__, bound, value.__defaults__, value.__kwdefaults__]
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_names, value.co_consts]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if not hasattr(value, "__dict__"):
        return None
    slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    return [vars(value), {name: getattr(value, name) for name in slots}]


def _slots(kind: type) -> list[str]:
    names = vars(kind).get("__slots__", ())
    return [name for name in ([names] if isinstance(names, str) else names) if not name.startswith("__")]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a variable that has no value
        return "nothing"


def _is_found(kind: type) -> bool:
    """Whether a class is what its name stands for."""
    try:
        return operator.attrgetter(kind.__qualname__)(sys.modules[kind.__module__]) is kind
    except (AttributeError, KeyError):
        return False


def _tensor(value: torch.Tensor) -> str:
    numbers = b""
    if not value.is_meta:
        dense = value.detach().cpu() if value.layout == torch.strided else value.detach().cpu().to_dense()
        numbers = dense.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"tensor {tuple(value.shape)} {value.dtype} {value.layout} {_hash(numbers)}"


def _written(value: Any) -> str:
    """What pickle would write of a value; nothing is ever read back."""
    try:
        content = _hash(pickle.dumps(value, protocol=4))
    except Exception:
        content = "not to be written"
    return f"{_name(type(value))} {content}"


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
