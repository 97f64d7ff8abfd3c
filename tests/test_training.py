"""Settings of local training."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from potluck.training import Training


def factors(schedule: str, rounds: int) -> list[float]:
    training = Training(schedule=schedule)
    return [training.learning_rate_factor(number, rounds) for number in range(1, rounds + 1)]


def test_the_defaults_are_those_of_the_released_code() -> None:
    training = Training()
    assert (training.optimizer, training.learning_rate, training.momentum) == ("sgd", 0.01, 0.9)
    assert (training.weight_decay, training.clip_norm, training.schedule) == (1e-3, 50.0, "constant")


def test_constant() -> None:
    assert factors("constant", 4) == [1, 1, 1, 1]


def test_cosine_falls_from_one_and_does_not_reach_zero() -> None:
    expected = [(1 + math.cos(math.pi * done / 4)) / 2 for done in range(4)]
    assert factors("cosine", 4) == pytest.approx(expected, rel=1e-15)
    assert expected[0] == 1
    assert expected[-1] > 0


def test_exponential_multiplies_every_round() -> None:
    assert factors("exponential:0.5", 4) == [1, 0.5, 0.25, 0.125]


def test_step_multiplies_after_so_many_rounds() -> None:
    assert factors("step:2:0.1", 6) == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


@pytest.mark.parametrize("schedule", ["constant", "cosine", "exponential:0.5", "step:1:0.5"])
def test_enrolment_has_the_full_learning_rate(schedule: str) -> None:
    assert Training(schedule=schedule).learning_rate_factor(0, 10) == 1


@pytest.mark.parametrize(
    "schedule",
    [
        "", "linear", "constant:1", "cosine:2", "exponential", "exponential:0", "exponential:-1", "exponential:x",
        "exponential:nan", "exponential:inf", "step", "step:2", "step:0:0.5", "step:-1:0.5", "step:1.5:0.5",
        "step:2:0", "step:2:0.1:3",
    ],
)  # fmt: skip
def test_a_wrong_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValidationError, match="none of constant, cosine"):
        Training(schedule=schedule)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("batch_size", 0), ("optimizer", "lion"), ("learning_rate", 0), ("learning_rate", math.nan),
        ("momentum", 1), ("momentum", -0.1), ("betas", (0.9, 1)), ("betas", (-0.1, 0.9)), ("betas", (0.9,)),
        ("weight_decay", -1), ("clip_norm", 0), ("clip_norm", "never"), ("learningrate", 1),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=name):
        Training(**{name: value})


def test_no_clipping_can_be_written_as_a_word() -> None:
    assert Training(**{"clip_norm": "none"}).clip_norm is None
    assert Training(clip_norm=None).clip_norm is None
    assert Training(**{"clip_norm": "2.5"}).clip_norm == 2.5


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Training().epochs = 3  # type: ignore[misc]
