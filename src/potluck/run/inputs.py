"""What a run began with, as digests: it goes on with the same data and models, or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from potluck.errors import RunError
from potluck.run.files import read_json

NAME = "inputs.json"
"""Its file in a run's folder. It stays there: no payload and no report holds any of it."""
VERSION = 1
SAMPLES = tuple(
    f"{pool} {part}" for pool in ("training", "validation", "test", "holdout") for part in ("inputs", "labels")
)
"""The columns of :class:`Inputs` that say which samples a client holds."""
NETWORKS = ("architecture", "initial weights")
"""The columns that say which network a client begins with."""
COUNTS = "training samples"
"""The column that says how many a client trains on, its holdout share included."""
_SHOWN = 3
"""Clients that a message names."""
_MOST = 1 << 28
"""Bytes that the file may have."""


@dataclass(frozen=True)
class Inputs:
    """Digests of everything that a run's numbers depend on besides its settings.

    Attributes:
        common: What all clients share, such as the data set and the public samples, by name.
        clients: For each kind of input the digest of every client, in the order of their ids; empty for no samples.
            Under :data:`COUNTS` numbers, where they are recorded.
    """

    common: Mapping[str, str]
    clients: Mapping[str, Sequence[str]]

    def difference(self, now: Inputs) -> str:
        """What is not as it was, in words; nothing if everything is.

        >>> before = Inputs({"data set": "a"}, {"training inputs": ["b", "c"]})
        >>> before.difference(Inputs({"data set": "a"}, {"training inputs": ["b", "d"]}))
        'the training inputs of client 1'
        """
        names = [name for name in {**self.common, **now.common} if self.common.get(name) != now.common.get(name)]
        found = [f"the {name}" for name in names]
        for name in {**self.clients, **now.clients}:
            if name == COUNTS:  # they follow from the samples, and earlier runs do not record them
                continue
            before, after = self.clients.get(name, ()), now.clients.get(name, ())
            if len(before) != len(after):
                return f"the number of clients ({len(before)}, now {len(after)})"
            if apart := [number for number, pair in enumerate(zip(before, after, strict=True)) if len(set(pair)) > 1]:
                found.append(f"the {name} of {_clients(apart)}")
        return ", ".join(found)

    def samples(self) -> list[tuple[str, ...]]:
        """Of each client what is the same wherever it holds the same samples."""
        return list(zip(*(self.clients[name] for name in SAMPLES), strict=True))

    def counts(self) -> list[int] | None:
        """How many training samples each client holds; None where that is not recorded."""
        found = [str(count) for count in self.clients.get(COUNTS, ())]
        known = found and all(count.isdecimal() and len(count) < 16 for count in found)
        return [int(count) for count in found] if known else None

    def plain(self) -> dict[str, Any]:
        """As plain values, to be written."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def read(cls, folder: Path) -> Inputs | None:
        """What the run in a folder began with; None where that was not recorded."""
        path = folder / NAME
        if not os.path.lexists(path):
            return None
        content = read_json(path, _MOST)
        try:
            common, clients = content["common"], content["clients"]
            known = content["version"] == VERSION and _texts(common.values())
            known = known and clients.keys() >= {*NETWORKS, *SAMPLES}
            whole = known and all(isinstance(each, list) and _texts(each) for each in clients.values())
            if not whole or len({len(each) for each in clients.values()}) != 1:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{path} is damaged: it does not say what the run began with.") from error
        return cls(common, clients)


def _texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


Began = Callable[[], Inputs]
"""Gives what a run begins with; only asked for runs that have a folder."""


def refuse_other_inputs(folder: Path, now: Inputs) -> None:
    """Raise unless a run's data and models are those that it began with."""
    before = Inputs.read(folder)
    if before is None:
        raise RunError(
            f"{folder} has no {NAME}, which says with which data and models it began: that they are still the same "
            "cannot be checked. Start a new run; 'potluck show' and 'potluck report' still read this one."
        )
    if difference := before.difference(now):
        raise RunError(
            f"{folder} began with other data or models than it would go on with. Changed: {difference}. "
            "Put them back as they were, or start a new run."
        )


def digest(*tensors: Tensor) -> str:
    """A short text that is the same for the same numbers of the same types and shapes alone."""
    content = hashlib.sha256()
    for tensor in tensors:
        content.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
        dense = tensor.detach().cpu().contiguous()
        content.update(dense.reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()[:16]


def text_digest(text: str) -> str:
    """The digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _clients(numbers: Sequence[int]) -> str:
    """Clients by number, as many as fit in a sentence.

    >>> _clients([3]), _clients([0, 1, 2, 3, 4])
    ('client 3', 'clients 0, 1, 2 and 2 others')
    """
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    more = len(numbers) - _SHOWN
    others = f" and {more} other{'s' if more > 1 else ''}" if more > 0 else ""
    return f"client{'s' if len(numbers) > 1 else ''} {shown}{others}"
