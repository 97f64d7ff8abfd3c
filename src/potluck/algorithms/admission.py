"""What every upload has to pass before the server computes with it, and whose it was if that goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch

from potluck import draws
from potluck.algorithms.base import Algorithm
from potluck.algorithms.hooks import calling, given_tensors
from potluck.algorithms.uploads import State, Upload
from potluck.contract import Round, Task
from potluck.errors import PayloadError, PotluckError, TrainingError
from potluck.metrics.server import ServerCounter
from potluck.payload import check_dense

_ORDINARY = 1e4
"""Weights and representations of networks that learn stay far below this."""
_SUSPECTS = 16
"""Uploads that are tried one by one when the server's state is not finite: each try may take as long as a round's."""


@contextmanager
def sent_by(client: int) -> Iterator[None]:
    """While active, an error about what was sent says by whom."""
    try:
        yield
    except PayloadError as error:
        whose, text = f"client {client}", str(error)
        if text.startswith(whose):
            raise
        raise PayloadError(f"{whose} sent an invalid upload: {text}") from error


def check_upload(algorithm: Algorithm, upload: Upload, state: State, task: Task) -> None:
    """Refuse an upload that is not what this algorithm's clients send, and say whose it is.

    Before the algorithm's own check every tensor must be a dense array of ordinary numbers, and of metadata there is
    only what the algorithm names, with a number of samples that can be. How large finite numbers are is not bounded:
    one client of bad will can still send weights that ruin an average.
    """
    with sent_by(upload.client):
        upload.payload.require_dense()
        for name in sorted(upload.payload.meta.keys() - algorithm.upload_meta):
            raise PayloadError(f"metadata {name!r} was not expected.")
        if "samples" in upload.payload.meta:
            _ = upload.samples
        with calling(algorithm, "check", client=upload.client):
            algorithm.check(upload, state, task)


def aggregated(
    algorithm: Algorithm,
    state: State,
    uploads: Sequence[Upload],
    round: Round,
    task: Task,
    counter: ServerCounter | None = None,
    check_stop: Callable[[], object] = lambda: None,
) -> State:
    """The server's next state, in which every number is finite; an error that names the client if one is to blame.

    What making it costs is added to the ``counter``. The search for the client calls ``check_stop`` before each try,
    which may raise.
    """
    with counter or nullcontext():
        server = _aggregate(algorithm, state, uploads, round, task)
    if (name := _not_finite(server)) is None:
        return server
    what = f"the server's {name!r} holds numbers that are not finite after round {round.number}"
    advice = f"smaller learning rates{_own_rates(algorithm)}."
    if len(uploads) == 1:
        raise TrainingError(
            f"{what}, in which client {uploads[0].client} alone took part; the largest number that it sent is "
            f"{_largest(uploads[0]):.3g}. If that is nonsense, look at this client; if not, try {advice}"
        )
    found = _to_blame(algorithm, state, uploads, round, task, check_stop)
    if not found:
        raise TrainingError(f"{what}. Try {advice}")
    raise PayloadError(
        f"{what}, because of what {_names(found)} sent: numbers up to {max(map(_largest, found)):.3g}. Look at "
        f"{'this client' if len(found) == 1 else 'these clients'}, or try {advice}"
    )


def _own_rates(algorithm: Algorithm) -> str:
    """The algorithm's learning rates that are set, in words."""
    rates = {name: value for name, value in algorithm if name.endswith("learning_rate") and isinstance(value, float)}
    return "".join(f", also algorithm.{name} ({value:g})" for name, value in rates.items())


def _aggregate(algorithm: Algorithm, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
    # What an algorithm makes with PyTorch's own initialisers here is drawn from the round's key.
    with draws.initial_weights(round.key), calling(algorithm, "aggregate", round=round):
        made = given_tensors(algorithm.aggregate(state, uploads, round, task))
        for name, tensor in made.items():
            try:
                check_dense(name, tensor)
            except PayloadError as error:
                raise TypeError(str(error)) from error  # a mistake of the algorithm, not of a client
            if name in state and tensor.dtype != state[name].dtype:
                raise TypeError(f"it changes {name!r} from {state[name].dtype} to {tensor.dtype}.")
        # A graph of operations would keep the states of all rounds in memory.
        return {name: tensor.detach() for name, tensor in made.items()}


def _not_finite(state: State) -> str | None:
    """The first tensor with a number that is not finite."""
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            return name
    return None


def _to_blame(
    algorithm: Algorithm,
    state: State,
    uploads: Sequence[Upload],
    round: Round,
    task: Task,
    check_stop: Callable[[], object],
) -> Sequence[Upload]:
    """The uploads that spoil the server's state each alone, or without which it is not spoilt; none if all do.

    No upload of ordinary numbers is to blame: a server that trains can diverge on some of them by its own settings. Of
    many others only those with the largest numbers are tried.
    """

    def spoils(some: Sequence[Upload]) -> bool:
        check_stop()
        try:
            return _not_finite(_aggregate(algorithm, state, some, round, task)) is not None
        except PotluckError:
            return False

    odd = sorted((upload for upload in uploads if _largest(upload) > _ORDINARY), key=_largest, reverse=True)
    suspects = sorted(odd[:_SUSPECTS], key=lambda upload: upload.client)
    alone = [upload for upload in suspects if spoils([upload])]
    if alone:
        # If all that were tried do, and nothing but numbers like these was sent, the smallest speaks for the rest.
        every = len(alone) == len(suspects) and len(odd) == len(uploads) and (odd[-1] in alone or spoils(odd[-1:]))
        return () if every else alone
    return [upload for upload in suspects if not spoils([other for other in uploads if other is not upload])]


def _largest(upload: Upload) -> float:
    numbers = [t.abs().max().item() for t in upload.payload.tensors.values() if t.is_floating_point() and t.numel()]
    return max(numbers, default=0.0)


def _names(uploads: Sequence[Upload]) -> str:
    clients = [str(upload.client) for upload in uploads]
    return f"client {clients[0]}" if len(clients) == 1 else f"clients {', '.join(clients)}"
