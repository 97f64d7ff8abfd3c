"""What every engine demands of phases, data and results; whatever is amiss is said in the same words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from torch import Tensor

from potluck.client import Client
from potluck.contract import Phase, Received, Round
from potluck.data.examples import Examples
from potluck.engines.base import Setting
from potluck.errors import AlgorithmError, ConfigError, DataError, ModelError, TrainingError


def data_of(setting: Setting, client: Client, name: str) -> Examples:
    """The data of a client, or the public ones, that a phase or a statistic asks for; an error if there are none."""
    if name == "public":
        if setting.public is None:
            raise ConfigError("this algorithm needs public data: give Federation(public=...).")
        return setting.public
    if name not in ("train", "holdout"):
        raise AlgorithmError(
            f"{setting.algorithm.title} asks for data called {name!r}: there are train, holdout and public."
        )
    data: Examples = getattr(client, name)
    if len(data) == 0:
        raise DataError(f"client {client.id} has no {name} samples, and {setting.algorithm.title} needs some.")
    return data


def require_networks(number: int, phase: Phase, held: Iterable[str]) -> None:
    """Refuse a phase that trains what clients do not hold."""
    held = list(held)
    missing = set(phase.learning) - set(held)
    if missing:
        raise ModelError(
            f"phase {number} trains {', '.join(sorted(missing))}, and clients hold {', '.join(held)} alone."
        )


def require_finite(round: Round, client: Client, losses: Sequence[float], weights_are_finite: bool) -> None:
    """Stop at the first client whose training left the numbers."""
    if not weights_are_finite or not all(math.isfinite(loss) for loss in losses):
        raise TrainingError(
            f"training of client {client.id} in round {round.number} gave numbers that are not finite (losses: "
            f"{', '.join(f'{loss:.4g}' for loss in losses)}). Try a smaller learning_rate or clip_norm."
        )


def loss_of_round(losses: Sequence[float], adapting: int) -> float:
    """The loss that stands for a round: that of the first phase that is not for adapting."""
    return next(iter(losses[adapting:]), math.nan)


def weights_among(received: Received, shared: Sequence[str]) -> dict[str, Tensor]:
    """Those of the received tensors that are weights of shared networks, to be loaded."""
    prefixes = tuple(f"{name}." for name in shared)
    return {name: tensor for name, tensor in received.items() if name.startswith(prefixes)}
