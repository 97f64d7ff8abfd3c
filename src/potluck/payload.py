"""What crosses the wall between a client and the server: named tensors and a little plain metadata, nothing else.

On the wire a payload is twelve bytes and a safetensors file (a length, a JSON header, raw numbers)::

    8 bytes   "potluck" and the version of the format, the byte 2
    4 bytes   CRC-32 of all that follows, little-endian
    ...       the safetensors file; its metadata have one entry, "meta", a JSON table

The checksum is there for damage on the way: it finds every burst of up to 32 bits and all but one in four thousand
million of other errors, at several gigabytes per second. It is no defence against somebody who wants to deceive, and
no longer one without a key would be: who sent a payload is for the transport to say.

Nothing in a payload is ever unpickled or executed. How many tensors it has, how deep its JSON is nested, and how long
header and metadata are is bounded before either is parsed; a receiver checks names, shapes, types and finiteness before
it uses anything.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from potluck.errors import PayloadError

VERSION = 2
"""Of the format. Version 1 was the safetensors file alone."""
MOST_TENSORS = 1 << 14
"""So many tensors a payload may have."""
MOST_META = 1 << 16
"""So many bytes the metadata may take as JSON."""

_MAGIC = b"potluck"
_FRAME = len(_MAGIC) + 1 + 4
_MOST_HEADER = 1 << 22
_MOST_DIMENSIONS = 64  # PyTorch computes with no more
_HEADER_DEPTH, _META_DEPTH = 3, 1
_TYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
}  # fmt: skip
# One that never ends is taken to the end: looking for the next one from within it would take forever.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)

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
        if len(self.tensors) > MOST_TENSORS:
            raise PayloadError(f"{len(self.tensors):,} tensors are more than the {MOST_TENSORS:,} that a payload has.")
        for name in self.tensors:
            if name == "__metadata__" or not _is_text(name):
                raise PayloadError(f"a tensor cannot be called {name!r}.")

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the numbers alone."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @cached_property
    def encoded_bytes(self) -> int:
        """Bytes on the wire, names, metadata and checksum included; nothing at all counts as 0."""
        if not self.tensors and not self.meta:
            return 0
        layout = tuple((name, tuple(t.shape), str(t.dtype)) for name, t in self.tensors.items())
        return self.tensor_bytes + _bytes_around(layout, _meta_json(self.meta))

    def copied(self) -> Payload:
        """The same on the CPU, in memory that nobody else holds."""
        self.require_dense()
        return Payload({name: t.detach().to("cpu", copy=True) for name, t in self.tensors.items()}, self.meta)

    def encode(self) -> bytes:
        """The payload as it travels."""
        self.require_dense()
        # Copies: safetensors refuses tensors that lie in the same memory.
        tensors = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.tensors.items()
        }
        content = safetensors.torch.save(tensors, {"meta": _meta_json(self.meta)})
        if int.from_bytes(content[:8], "little") > _MOST_HEADER:
            raise PayloadError(f"the names of the tensors take more than {_MOST_HEADER:,} bytes: give shorter ones.")
        return _MAGIC + bytes([VERSION]) + zlib.crc32(content).to_bytes(4, "little") + content

    @classmethod
    def decode(cls, data: bytes) -> Payload:
        """Read what arrived; anything that is not a payload, whole and of this version, is refused."""
        content = _unframed(data)
        header = _read_header(content)
        meta = _read_meta(header.pop("__metadata__", None))
        for name, entry in header.items():
            _check_entry(name, entry)
        try:
            tensors = safetensors.torch.load(content)
        except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, OverflowError) as error:
            raise PayloadError(f"a damaged payload arrived: {error}.") from error
        for name, tensor in tensors.items():
            if tensor.dtype == torch.bool and bool((tensor.view(torch.uint8) > 1).any()):
                raise PayloadError(f"tensor {name!r} holds truth values that are neither 0 nor 1.")
        # By name: safetensors lays tensors out by type first, so that the sender's order is lost.
        return cls({name: tensors[name] for name in sorted(tensors)}, meta)

    def require_dense(self) -> None:
        """Refuse tensors that are anything but dense arrays of ordinary numbers, such as sparse ones."""
        for name, tensor in self.tensors.items():
            check_dense(name, tensor)

    def require_finite(self) -> None:
        """Refuse a payload with any number that is not finite."""
        for name, tensor in self.tensors.items():
            check_dense(name, tensor)
            _check_finite(name, tensor)

    def require_names(self, names: Set[str]) -> None:
        """Refuse a payload whose tensors are not these."""
        for name in sorted(names - self.tensors.keys()):
            raise PayloadError(f"tensor {name!r} is missing from what arrived.")
        for name in self.tensors:
            if name not in names:
                raise PayloadError(f"tensor {name!r} was not expected.")

    def require(self, like: Mapping[str, Tensor]) -> None:
        """Refuse a payload whose names, shapes, types or numbers are not as in ``like``."""
        self.require_names(like.keys())
        for name, tensor in self.tensors.items():
            check_tensor(name, tensor, tuple(like[name].shape), like[name].dtype)


def check_dense(name: str, tensor: Tensor) -> None:
    """Refuse what is no dense array of ordinary numbers in memory, before anything is computed with it."""
    found = None
    if type(tensor) not in (Tensor, nn.Parameter):
        found = f"a {type(tensor).__name__}"
    elif tensor.is_nested or tensor.layout is not torch.strided:
        found = "nested" if tensor.is_nested else f"of the layout {str(tensor.layout).removeprefix('torch.')}"
    elif tensor.device.type == "meta":
        found = "on the meta device, without numbers"
    elif tensor.dtype not in _TYPES.values():
        found = f"of type {tensor.dtype}"
    elif tensor.ndim > _MOST_DIMENSIONS:
        found = f"of {tensor.ndim} dimensions"
    if found is not None:
        raise PayloadError(f"tensor {name!r} is {found}: what travels are dense tensors of ordinary numbers.")


def _check_finite(name: str, tensor: Tensor) -> None:
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise PayloadError(f"tensor {name!r} holds numbers that are not finite.")


def check_tensor(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Refuse a tensor of another shape or type, or with a number that is not finite."""
    check_dense(name, tensor)
    if tuple(tensor.shape) != shape:
        raise PayloadError(f"tensor {name!r} has shape {tuple(tensor.shape)}, expected {shape}.")
    if tensor.dtype != dtype:
        raise PayloadError(f"tensor {name!r} is of type {tensor.dtype}, expected {dtype}.")
    _check_finite(name, tensor)


def check_numbers(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a tensor of another shape, of whole numbers, or with a number that is not finite."""
    check_tensor(name, tensor, shape, tensor.dtype)
    if not tensor.is_floating_point():
        raise PayloadError(f"tensor {name!r} is of type {tensor.dtype}, expected numbers with a fraction.")


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
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise PayloadError(f"metadata {name!r} is a number beyond 64 bits.")
    if meta and len(_meta_json(meta)) > MOST_META:
        raise PayloadError(f"the metadata take more than {MOST_META:,} bytes: send what is long as a tensor.")


def _is_text(name: object) -> bool:
    """Whether a name can be written in UTF-8, which text with half of a surrogate pair cannot."""
    return isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _meta_json(meta: Meta) -> str:
    return json.dumps(dict(meta), sort_keys=True, separators=(",", ":"))


def _unframed(data: bytes) -> bytes:
    """What the checksum is of, if it fits."""
    version = data[len(_MAGIC)] if len(data) > len(_MAGIC) and data.startswith(_MAGIC) else None
    if version is None and data[8:9] == b"{" and b'"potluck-payload-1"' in data[:1024]:
        version = 1
    if version not in (None, VERSION):
        raise PayloadError(
            f"a payload of version {version} of the format arrived, and this is version {VERSION}: run the same "
            "version of Potluck on both sides."
        )
    if version is None or len(data) < _FRAME:
        raise PayloadError("a damaged payload arrived: it is truncated or no payload at all.")
    content = data[_FRAME:]
    if zlib.crc32(content) != int.from_bytes(data[_FRAME - 4 : _FRAME], "little"):
        raise PayloadError("a damaged payload arrived: its checksum does not fit.")
    return content


def _read_header(content: bytes) -> dict[str, Any]:
    """The JSON header of a safetensors file, read without trusting it."""
    length = int.from_bytes(content[:8], "little") if len(content) >= 8 else -1
    if not 0 <= length <= min(len(content) - 8, _MOST_HEADER):
        raise PayloadError("a damaged payload arrived: it is truncated or its header is too long.")
    header = _parse(content[8 : 8 + length], "header", _HEADER_DEPTH)
    if len(header) > MOST_TENSORS + 1:
        raise PayloadError(f"a payload arrived with more than {MOST_TENSORS:,} tensors.")
    return header


def _read_meta(labels: object) -> dict[str, Any]:
    text = labels.get("meta") if isinstance(labels, dict) and len(labels) == 1 else None
    if not isinstance(text, str) or len(text) > MOST_META:
        raise PayloadError(f"a damaged payload arrived: it has no metadata, or more than {MOST_META:,} bytes of them.")
    try:
        return _parse(text.encode(), "metadata", _META_DEPTH)
    except UnicodeEncodeError as error:
        raise PayloadError("a damaged payload arrived: its metadata are no UTF-8.") from error


def _check_entry(name: str, entry: object) -> None:
    """Refuse an entry of the header of another type than the few that travel, or of too many dimensions."""
    shape = entry.get("shape") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS:
        raise PayloadError(
            f"a damaged payload arrived: tensor {name!r} has no shape of up to {_MOST_DIMENSIONS} sizes."
        )
    if entry.get("dtype") not in _TYPES:
        raise PayloadError(f"tensor {name!r} is of type {entry.get('dtype')!r}: expected one of {', '.join(_TYPES)}.")


def _parse(text: bytes, what: str, deepest: int) -> dict[str, Any]:
    """A table in JSON, in which no name comes twice; its nesting and size are looked at before it is parsed."""
    _check_nesting(text, what, deepest)
    try:
        # As text: bytes might be parsed as UTF-16.
        table = json.loads(text.decode(), object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"a damaged payload arrived: its {what} is no JSON ({error}).") from error
    if not isinstance(table, dict):
        raise PayloadError(f"a damaged payload arrived: its {what} is not a table.")
    return table


def _check_nesting(text: bytes, what: str, deepest: int) -> None:
    if text.count(b"[") + text.count(b"{") <= deepest:
        return  # so few cannot be nested deeper
    bare = _STRING.sub(b"", text)
    depth = most = 0
    if sum(map(bare.count, (b"[", b"{", b"]", b"}"))) > 6 * (MOST_TENSORS + 1):  # each is a table with two lists
        most = deepest + 1
    else:
        for bracket in re.findall(rb"[][{}]", bare):
            depth += 1 if bracket in b"[{" else -1
            most = max(most, depth)
    if most > deepest:
        raise PayloadError(
            f"a payload arrived whose {what} nests tables and lists, or has more than {MOST_TENSORS:,} tensors need."
        )


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise PayloadError(f"a payload arrived in which the name {name!r} comes twice.")
        table[name] = value
    return table


@lru_cache(maxsize=1024)
def _bytes_around(layout: tuple[tuple[str, tuple[int, ...], str], ...], meta: str) -> int:
    """Bytes around the numbers, which depend on names, shapes, types and metadata alone."""
    tensors = {
        name: torch.zeros(shape, dtype=getattr(torch, kind.removeprefix("torch."))) for name, shape, kind in layout
    }
    content = safetensors.torch.save(tensors, {"meta": meta})
    return _FRAME + len(content) - sum(t.numel() * t.element_size() for t in tensors.values())
