"""Uploads that no client makes, for every method: what is wrong with each, and the few that are to be accepted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

import potluck
from potluck.algorithms import Algorithm, State, Upload, algorithm, names
from potluck.algorithms.admission import check_upload, sent_by
from potluck.contract import Networks, Received, Round, Task
from potluck.payload import Payload

CLIENT = 2
CLASSES = 4
Tensors = dict[str, Any]
Craft = Callable[[Tensors, dict[str, Any]], tuple[Mapping[str, Any], Mapping[str, Any]]]
"""From the tensors and the metadata of a good upload to those of a bad one."""

ACCEPTED: dict[str, str] = {
    "all values 1e30": "finite numbers have no bound",
    "all values 1e6": "finite numbers have no bound",
    "all values 0": "an honest client of dead units sends this",
    "all values -1": "finite numbers have no bound",
    "samples = 1": "the fewest",
    "samples = 2**40": "the most",
    "samples = 7, though nothing is weighed": "a number that can be, and has no effect",
    "needs gradients": "what counts is the numbers",
    "lies transposed in memory": "what counts is the numbers",
    "one class alone": "a client may have one class",
    "counts = 2**24": "the most",
    "one class certain": "probabilities may be 0 and 1",
    "rounding in the sum": "sums are 1 but for rounding",
}
"""What is accepted on purpose, and why; where an upload of this name cannot be told from an honest one."""


@dataclass(frozen=True)
class Crafted:
    """One upload: the method that it is sent to, what is odd in it, and how it is made."""

    method: str
    what: str
    make: Callable[[], Payload]

    @property
    def accepted(self) -> bool:
        """Whether it is to be taken."""
        # Where probabilities are sent, no other numbers are.
        bounded = self.method in ("fd", "kt-pfl") and self.what.startswith("all values")
        return self.what in ACCEPTED and not bounded


def _net(width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, width), nn.Tanh(), nn.Linear(width, 5), nn.Tanh(), nn.Linear(5, 4))


def clients(equal: bool) -> list[potluck.Client]:
    """Three, of classes 0 to 2."""
    found = []
    for number in range(3):
        generator = torch.Generator().manual_seed(number)
        torch.manual_seed(number)
        x, y = torch.randn(12, 1, 4, 4, generator=generator), torch.arange(12) % 3
        found.append(potluck.Client(_net(7 if equal else 6 + number), train=(x, y), test=(x[:3], y[:3])))
    return found


class Sends:
    """A federation whose client ``CLIENT`` sends what it is told; nothing told, what it should."""

    def __init__(self, method: str, **settings: Any) -> None:
        self.told: Callable[[], Payload] | None = None
        self.good: Payload = Payload()
        kind, outer = type(algorithm(method)), self

        def upload(
            this: Algorithm, net: Networks, collected: Mapping[str, Tensor], got: Received, samples: int, round: Round
        ) -> Payload:
            good = kind.upload(this, net, collected, got, samples, round)
            outer.seen += 1
            if outer.seen % 3 != 0:  # the loop goes through the clients in order
                return good
            outer.good = good.copied()
            return good if outer.told is None else outer.told()

        self.seen = 0
        made = cast(type[Algorithm], type(kind.__name__, (kind,), {"upload": upload, "__module__": __name__}))
        public = (torch.randn(4, 1, 4, 4), torch.arange(4)) if "public data" in algorithm(method).needs else None
        self.federation = potluck.Federation(
            made, clients("equal models" in algorithm(method).needs), public=public, device="cpu", engine="loop",
            batch_size=4, **settings,
        )  # fmt: skip

    def run(self, rounds: int) -> None:
        """Go on to so many rounds."""
        self.federation.run(rounds, watch=lambda _event: None)

    @property
    def task(self) -> Task:
        """What is learned."""
        return self.federation.task

    @property
    def state(self) -> State:
        """What the server holds."""
        return self.federation.server


@functools.cache
def after_a_round(method: str) -> Sends:
    """A federation after its first round, and what client ``CLIENT`` sent in it."""
    made = Sends(method)
    made.run(1)
    return made


def check(crafted: Crafted) -> None:
    """What the server does with it."""
    of = after_a_round(crafted.method)
    with sent_by(CLIENT):
        payload = crafted.make()
    check_upload(of.federation.algorithm, Upload(CLIENT, payload), of.state, of.task)


def uploads() -> Iterator[Crafted]:
    """All, over all methods."""
    for method in names():
        for what, craft in _crafts(method):
            yield Crafted(method, what, functools.partial(_made, method, craft))


def _made(method: str, craft: Craft) -> Payload:
    good = after_a_round(method).good
    return Payload(*craft(dict(good.tensors), dict(good.meta)))


# ---- what can be wrong ----------------------------------------------------------------------------------------------


def _crafts(method: str) -> Iterator[tuple[str, Craft]]:
    good = after_a_round(method).good
    yield from _META.items()
    yield "a tensor too many", lambda tensors, meta: ({**tensors, "more": torch.zeros(1)}, meta)
    if "samples" in good.meta:
        yield "no samples", lambda tensors, _: (tensors, {})
        yield from ((what, craft) for what, craft in _SAMPLES.items() if "though" not in what)
    else:
        yield from ((what, craft) for what, craft in _SAMPLES.items() if what != "samples = 1")
    floating = [name for name, tensor in good.tensors.items() if tensor.is_floating_point()]
    if not floating:
        return
    name = floating[0]
    yield "no tensors", lambda _, meta: ({}, meta)
    yield "a tensor missing", lambda tensors, meta: ({n: t for n, t in tensors.items() if n != name}, meta)
    yield "a tensor renamed", lambda tensors, meta: ({f"{n}x" if n == name else n: t for n, t in tensors.items()}, meta)
    for what, change in _TENSORS.items():
        yield what, functools.partial(_changed, name, change)
    for what, value in _VALUES.items():
        yield what, functools.partial(_filled, value)
    if "labels" in good.tensors:
        yield from ((what, craft) for what, craft in _CLASSES.items() if "counts" not in what)
    if "counts" in good.tensors:
        yield from ((what, craft) for what, craft in _CLASSES.items() if "counts" in what)
    if method in ("fd", "kt-pfl"):
        yield from ((what, functools.partial(_changed, name, change)) for what, change in _PROBABILITIES.items())


def _changed(
    name: str, change: Callable[[Tensor], Any], tensors: Tensors, meta: dict[str, Any]
) -> tuple[Tensors, dict[str, Any]]:
    return {**tensors, name: change(tensors[name])}, meta


def _filled(value: float, tensors: Tensors, meta: dict[str, Any]) -> tuple[Tensors, dict[str, Any]]:
    return {n: torch.full_like(t, value) if t.is_floating_point() else t for n, t in tensors.items()}, meta


def _first(value: float) -> Callable[[Tensor], Tensor]:
    def change(tensor: Tensor) -> Tensor:
        changed = tensor.clone()
        changed.view(-1)[0] = value
        return changed

    return change


def _with(**meta: Any) -> Craft:
    return lambda tensors, held: (tensors, {**held, **meta})


class _Subclass(Tensor):
    """Somebody's own kind of tensor."""


_TENSORS: dict[str, Callable[[Tensor], Any]] = {
    "a dimension more": lambda t: t.unsqueeze(0),
    "a row more": lambda t: torch.cat([t, t[:1]]),
    "a row less": lambda t: t[:-1],
    "no dimension": lambda t: t.flatten()[0],
    "empty": lambda t: t.flatten()[:0],
    "flat": lambda t: torch.cat([t.flatten(), t.flatten()[:1]]),
    "65 dimensions": lambda t: t.flatten()[:1].reshape([1] * 65),
    "float64": lambda t: t.double(),
    "float16": lambda t: t.half(),
    "bfloat16": lambda t: t.bfloat16(),
    "float8": lambda t: t.to(torch.float8_e4m3fn),
    "float8 of the other kind": lambda t: t.to(torch.float8_e5m2),
    "int64": lambda t: t.long(),
    "uint8": lambda t: t.to(torch.uint8),
    "bool": lambda t: t.bool(),
    "complex": lambda t: t.to(torch.complex64),
    "NaN": lambda t: torch.full_like(t, torch.nan),
    "one NaN": _first(float("nan")),
    "infinity": _first(float("inf")),
    "minus infinity": _first(float("-inf")),
    "sparse": lambda t: t.to_sparse(),
    "sparse rows": lambda t: t.reshape(1, -1).to_sparse_csr(),
    "meta": lambda t: t.to("meta"),
    "nested": lambda t: torch.nested.nested_tensor([t]),
    "jagged": lambda t: torch.nested.nested_tensor([t.flatten(), t.flatten()[:1]], layout=torch.jagged),
    "quantised": lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8),
    "of a class of its own": lambda t: t.as_subclass(_Subclass),
    "an array": lambda t: t.numpy(),
    "a list": lambda t: t.tolist(),
    "none": lambda _: None,
    "an object array": lambda _: np.array([object()]),
    "lazy": lambda _: nn.LazyLinear(2).weight,
    "needs gradients": lambda t: nn.Parameter(t.clone()),
    "lies transposed in memory": lambda t: t.t().contiguous().t() if t.ndim == 2 else t.clone(),
}
_VALUES: dict[str, float] = {
    "all values 1e30": 1e30,
    "all values 1e6": 1e6,
    "all values 0": 0.0,
    "all values -1": -1.0,
}
_SAMPLES: dict[str, Craft] = {
    "samples = 1": _with(samples=1),
    "samples = 7, though nothing is weighed": _with(samples=7),
    "samples = 2**40": _with(samples=2**40),
    "samples = 2**40 + 1": _with(samples=2**40 + 1),
    "samples = 10**18": _with(samples=10**18),
    "samples = 2**63": _with(samples=2**63),
    "samples = 10**400": _with(samples=10**400),
    "samples = 0": _with(samples=0),
    "samples = -5": _with(samples=-5),
    "samples = 1e18": _with(samples=1e18),
    "samples = 7.0": _with(samples=7.0),
    "samples = '7'": _with(samples="7"),
    "samples = true": _with(samples=True),
    "samples = none": _with(samples=None),
    "samples = NaN": _with(samples=float("nan")),
}
_META: dict[str, Craft] = {
    "metadata not expected": _with(note="hello"),
    "1 MB of metadata": _with(note="x" * 1_000_000),
    "a thousand names of metadata": _with(**{f"n{number}": number for number in range(1000)}),
    "a table as metadata": _with(note={"a": 1}),
    "a tensor as metadata": _with(note=torch.ones(2)),
    "samples under another spelling": lambda tensors, meta: (tensors, {**meta, "Samples": 7}),
    "metadata named by a number": lambda tensors, meta: (tensors, {**meta, 3: 7}),  # type: ignore[dict-item]
}


def _labels(*values: int, dtype: torch.dtype = torch.int32) -> Craft:
    return functools.partial(_changed, "labels", lambda _: torch.tensor(values, dtype=dtype))


def _counts(value: float, dtype: torch.dtype = torch.int32) -> Craft:
    return functools.partial(_changed, "counts", lambda t: torch.full_like(t, value, dtype=dtype))


_CLASSES: dict[str, Craft] = {
    "class -1": _labels(-1, 0, 1),
    "class 4 of 4": _labels(0, 1, 4),
    "class 2**31 - 1": _labels(0, 1, 2**31 - 1),
    "a class twice": _labels(0, 1, 1),
    "classes descending": _labels(2, 1, 0),
    "classes as int64": _labels(0, 1, 2, dtype=torch.int64),
    "classes as float32": _labels(0, 1, 2, dtype=torch.float32),
    "classes in a table": lambda tensors, meta: ({**tensors, "labels": tensors["labels"].reshape(1, -1)}, meta),
    "a class less than means": _labels(0, 1),
    "no class at all": lambda tensors, meta: ({name: tensor[:0] for name, tensor in tensors.items()}, meta),
    "one class alone": lambda tensors, meta: ({name: tensor[1:2] for name, tensor in tensors.items()}, meta),
    "sparse classes": functools.partial(_changed, "labels", lambda t: t.to_sparse()),
    "classes on the meta device": functools.partial(_changed, "labels", lambda t: t.to("meta")),
    "counts = 0": _counts(0),
    "counts = -3": _counts(-3),
    "counts = 2**24": _counts(2**24),
    "counts = 2**24 + 1": _counts(2**24 + 1),
    "counts = 2**31 - 1": _counts(2**31 - 1),
    "counts = NaN": _counts(float("nan"), torch.float32),
    "counts as int64": _counts(4, torch.int64),
    "counts of fewer classes": functools.partial(_changed, "counts", lambda t: t[:-1]),
    "sparse counts": functools.partial(_changed, "counts", lambda t: t.to_sparse()),
}


def _one_hot(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor).index_fill(-1, torch.tensor([1]), 1.0)


_PROBABILITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "one class certain": _one_hot,
    "rounding in the sum": lambda t: t * (1 + 1e-4),
    "one probability below 0": lambda t: t + torch.tensor([-1.0, 0.5, 0.5, 0.0]),
    "sums of 0.5": lambda t: t / 2,
    "sums of 2": lambda t: t * 2,
    "one row of 1.5": lambda t: torch.cat([t[:-1], t[-1:] * 1.5]),
}
