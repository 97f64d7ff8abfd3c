"""What crosses the wall between a client and the server: named tensors and a little plain metadata, nothing else.

On the wire a payload is a safetensors file: a length, a JSON header, raw numbers. Nothing in it is ever unpickled or
executed, and a receiver checks names, shapes, types and finiteness before it uses anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from potluck.errors import PayloadError

FORMAT = "potluck-payload-1"
_HEADER_LIMIT = 1 << 24

Meta = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class Payload:
    """Named tensors and small plain metadata.

    >>> sent = Payload({"w": torch.ones(2, 3)}, {"samples": 7})
    >>> arrived = Payload.decode(sent.encode())
    >>> arrived.tensors["w"].shape, arrived.meta["samples"], sent.tensor_bytes
    (torch.Size([2, 3]), 7, 24)
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    meta: Meta = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse metadata that is more than plain text and numbers, and names that cannot travel."""
        _check_meta(self.meta)
        for name in self.tensors:
            if name == "__metadata__" or not _is_text(name):
                raise PayloadError(f"a tensor cannot be called {name!r}.")

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the numbers alone."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @cached_property
    def encoded_bytes(self) -> int:
        """Bytes on the wire, names and metadata included; nothing at all counts as 0."""
        if not self.tensors and not self.meta:
            return 0
        layout = tuple((name, tuple(t.shape), str(t.dtype)) for name, t in self.tensors.items())
        return self.tensor_bytes + _frame_bytes(layout, _meta_json(self.meta))

    def copied(self) -> Payload:
        """The same on the CPU, in memory that nobody else holds."""
        return Payload({name: t.detach().to("cpu", copy=True) for name, t in self.tensors.items()}, self.meta)

    def encode(self) -> bytes:
        """The payload as it travels."""
        # Copies: safetensors refuses tensors that lie in the same memory.
        tensors = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.tensors.items()
        }
        return safetensors.torch.save(tensors, {"format": FORMAT, "meta": _meta_json(self.meta)})

    @classmethod
    def decode(cls, data: bytes) -> Payload:
        """Read what arrived; anything that is not a payload is refused."""
        header = _read_header(data)
        labels = header.pop("__metadata__", {})
        if not isinstance(labels, dict) or labels.get("format") != FORMAT:
            found = labels.get("format") if isinstance(labels, dict) else None
            raise PayloadError(f"not a payload of this version: its format is {found!r}, expected {FORMAT!r}.")
        try:
            tensors = safetensors.torch.load(data)
            meta = json.loads(labels.get("meta", "{}"))
        except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise PayloadError(f"a damaged payload arrived: {error}.") from error
        # By name: safetensors lays tensors out by type first, so that the sender's order is lost.
        return cls({name: tensors[name] for name in sorted(tensors)}, meta)

    def require_finite(self) -> None:
        """Refuse a payload with any number that is not finite."""
        for name, tensor in self.tensors.items():
            _check_finite(name, tensor)

    def require(self, like: Mapping[str, Tensor]) -> None:
        """Refuse a payload whose names, shapes, types or numbers are not as in ``like``."""
        for name in sorted(like.keys() - self.tensors.keys()):
            raise PayloadError(f"tensor {name!r} is missing from what arrived.")
        for name, tensor in self.tensors.items():
            if name not in like:
                raise PayloadError(f"tensor {name!r} was not expected.")
            check_tensor(name, tensor, tuple(like[name].shape), like[name].dtype)


def _check_finite(name: str, tensor: Tensor) -> None:
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise PayloadError(f"tensor {name!r} holds numbers that are not finite.")


def check_tensor(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Refuse a tensor of another shape or type, or with a number that is not finite."""
    if tuple(tensor.shape) != shape:
        raise PayloadError(f"tensor {name!r} has shape {tuple(tensor.shape)}, expected {shape}.")
    if tensor.dtype != dtype:
        raise PayloadError(f"tensor {name!r} is of type {tensor.dtype}, expected {dtype}.")
    _check_finite(name, tensor)


def _check_meta(meta: Meta) -> None:
    if not isinstance(meta, Mapping):
        raise PayloadError("the metadata of a payload must be plain text and numbers by name.")
    for name, value in meta.items():
        if not _is_text(name):
            raise PayloadError(f"the names of metadata must be text, not {name!r}.")
        if not isinstance(value, str | int | float | bool):
            raise PayloadError(f"metadata {name!r} must be plain text or a number, not {type(value).__name__}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise PayloadError(f"metadata {name!r} is not finite.")


def _is_text(name: object) -> bool:
    """Whether a name can be written in UTF-8, which text with half of a surrogate pair cannot."""
    return isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _meta_json(meta: Meta) -> str:
    return json.dumps(dict(meta), sort_keys=True, separators=(",", ":"))


def _read_header(data: bytes) -> dict[str, Any]:
    """The JSON header of a safetensors file, read without trusting it."""
    length = int.from_bytes(data[:8], "little") if len(data) >= 8 else -1
    if not 0 <= length <= min(len(data) - 8, _HEADER_LIMIT):
        raise PayloadError("a damaged payload arrived: it is truncated or no payload at all.")
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"a damaged payload arrived: its header is no JSON ({error}).") from error
    if not isinstance(header, dict):
        raise PayloadError("a damaged payload arrived: its header is not a table.")
    return header


@lru_cache(maxsize=1024)
def _frame_bytes(layout: tuple[tuple[str, tuple[int, ...], str], ...], meta: str) -> int:
    """Bytes around the numbers, which depend on names, shapes, types and metadata alone."""
    tensors = {
        name: torch.zeros(shape, dtype=getattr(torch, kind.removeprefix("torch."))) for name, shape, kind in layout
    }
    data = safetensors.torch.save(tensors, {"format": FORMAT, "meta": meta})
    return len(data) - sum(t.numel() * t.element_size() for t in tensors.values())
