"""Calling the hooks of an algorithm: what goes wrong in one is said with its name, the phase, the client and the round.

A custom method may hold any mistake. Each ends in one message here, on every engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from potluck.algorithms.base import Algorithm
from potluck.contract import Phase, Round
from potluck.errors import AlgorithmError, ModelError, PotluckError

T = TypeVar("T")
_NO_MEMORY = re.compile("out of memory|ALLOC_FAILED|can't allocate memory")


@contextmanager
def calling(
    algorithm: Algorithm, hook: str, *, client: int | None = None, round: Round | None = None
) -> Iterator[None]:
    """While active, an error that no user should see becomes one that says where it was raised.

    Args:
        algorithm: Whose hook is called.
        hook: Its name; for the loss of a phase, see :func:`loss_name`.
        client: For which client.
        round: In which round.
    """
    try:
        yield
    except (ModelError, AlgorithmError) as error:
        raise type(error)(f"{_where(algorithm, hook, client, round)}: {error}") from error
    except PotluckError:
        raise
    except Exception as error:
        if is_out_of_memory(error) or isinstance(error, getattr(torch, "AcceleratorError", ())):
            raise  # no mistake of the algorithm
        text = str(error).strip().partition("\n")[0]
        raise AlgorithmError(
            f"{_where(algorithm, hook, client, round)} failed: {type(error).__name__}{': ' if text else ''}{text}"
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: libraries, drivers and compilers say so in ways of their own."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) is not None
    )


def loss_name(number: int, phase: Phase) -> str:
    """The name of a phase's loss, as :func:`calling` takes it."""
    return f"{getattr(phase.loss, '__name__', 'the loss')} (the loss of phase {number})"


def phases_of(algorithm: Algorithm, round: Round) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
    """The phases of a round: those that adapt, and those of local training."""
    found = []
    for name in ("adapt", "phases"):
        with calling(algorithm, name, round=round):
            phases = getattr(algorithm, name)(round)
            if not isinstance(phases, Sequence) or not all(isinstance(phase, Phase) for phase in phases):
                raise TypeError(f"it gives {_short(phases)}, and not a tuple of Phase.")
            found.append(tuple(phases))
    return found[0], found[1]


def given(kind: type[T], value: object) -> T:
    """What a hook gave, if it is what it should be; used within :func:`calling`."""
    if not isinstance(value, kind):
        raise TypeError(f"it gives {_short(value)}, and not a {kind.__name__}.")
    return value


def given_tensors(value: object) -> dict[str, Tensor]:
    """The same, of tensors by name."""
    if not isinstance(value, Mapping):
        raise TypeError(f"it gives {_short(value)}, and not tensors by name.")
    for name, tensor in value.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise TypeError(f"it gives {_short(tensor)} as {name!r}, and not tensors by name.")
    return dict(value)


def given_loss(value: object) -> Tensor:
    """The loss that a phase gave, if it is one number by which weights can learn; used within :func:`calling`."""
    loss = given(Tensor, value)
    if loss.ndim:
        raise ValueError(
            f"a loss is one number, and this one has the shape {tuple(loss.shape)}: reduce it with batch.mean."
        )
    if not loss.is_floating_point():
        raise TypeError(f"a loss is a number with a fraction, and this one is {loss.dtype}.")
    if not loss.requires_grad:
        raise ValueError(
            "no weight that learns has a part in the loss: something detaches it, by detach(), torch.no_grad() or a "
            "way through NumPy."
        )
    return loss


def _short(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _where(algorithm: Algorithm, hook: str, client: int | None, round: Round | None) -> str:
    whose = "" if client is None else f" for client {client}"
    when = "" if round is None else f" in round {round.number}"
    return f"{type(algorithm).__name__}.{hook}{whose}{when}"
