"""A short string that says of what architecture a network is, whatever its weights are."""

from __future__ import annotations

import hashlib
import itertools
import re
import types

from torch import nn

# An object printed by default shows where it lies in memory, which differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(model: nn.Module) -> str:
    """Name the architecture of ``model``: equal for two networks that differ in their weights alone.

    It covers the tree of modules, the class and settings of each, and the name, shape, type and sharing of every
    parameter and buffer. Weights, device, training mode and ``requires_grad`` do not count. Settings are what a module
    prints of itself and its plain public attributes (numbers, words, functions, and tuples or lists of these).

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
    kind = type(module)
    attributes = {
        name: setting
        for name, value in sorted(vars(module).items())
        if not name.startswith("_") and name != "training" and (setting := _setting(value)) is not None
    }
    return _ADDRESS.sub("", f"{kind.__module__}.{kind.__qualname__}({module.extra_repr()}) {attributes}")


def _setting(value: object) -> str | None:
    """A value as text if it can be a setting of the architecture; None for state, modules and the like."""
    if isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, tuple | list):
        return str([_setting(item) for item in value])
    return None
