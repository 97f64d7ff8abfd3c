"""How clients train, whatever the algorithm."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, field_validator

from potluck.settings import MOST, Settings


class Training(Settings):
    """Settings of local training. The defaults are those of the papers' released code, for small batches."""

    epochs: int = Field(1, ge=1, le=MOST, description="local epochs of a round (E)")
    batch_size: int = Field(64, ge=1, lt=2**31, description="samples of a step (B)")
    optimizer: Literal["sgd", "adam"] = Field("sgd", description="optimiser, fresh in every phase")
    learning_rate: float = Field(0.01, gt=0, description="learning rate")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD")
    betas: tuple[float, float] = Field((0.9, 0.999), description="decay rates of Adam's two moments")
    weight_decay: float = Field(1e-3, ge=0, description="weight decay")
    clip_norm: float | None = Field(50.0, gt=0, description="largest norm of a gradient; none to not clip")
    schedule: str = Field(
        "constant",
        description="learning rate over rounds: constant, cosine, exponential:FACTOR or step:ROUNDS:FACTOR",
    )

    @field_validator("clip_norm", mode="before")
    @classmethod
    def _none(cls, value: object) -> object:
        # TOML has no null: in a file and on the command line, no clipping is the word "none".
        return None if value == "none" else value

    @field_validator("betas")
    @classmethod
    def _betas(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in value):
            raise ValueError(f"{value} is not a pair of numbers in [0, 1).")
        return value

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, value: str) -> str:
        _factor(value, 1, 1)
        return value

    def learning_rate_factor(self, round: int, rounds: int) -> float:
        """What the learning rates are multiplied by in a round.

        >>> Training(schedule="step:10:0.5").learning_rate_factor(21, 100)
        0.25
        """
        return _factor(self.schedule, round, rounds)


def _factor(schedule: str, round: int, rounds: int) -> float:
    kind, *numbers = schedule.split(":")
    done = max(round - 1, 0)
    try:
        match kind, numbers:
            case "constant", []:
                return 1.0
            case "cosine", []:
                return 0.5 * (1 + math.cos(math.pi * done / rounds))
            case "exponential", [factor]:
                return _positive(factor) ** done
            case "step", [every, factor] if int(every) > 0:
                return _positive(factor) ** (done // int(every))
    except OverflowError:
        return math.inf  # training will stop with numbers that are not finite, and say so
    except ValueError:
        pass
    raise ValueError(f"{schedule!r} is none of constant, cosine, exponential:0.99, step:100:0.1.")


def _positive(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(text)
    return number
