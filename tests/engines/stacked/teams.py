"""Clients that are trained on the stacked engine and on loop, and must come out the same."""

from __future__ import annotations

from typing import Any

from potluck.client import Client
from potluck.contract import Round
from potluck.engines import Setting
from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked

from ..made_up import Mean, full_model, job, member, plain_model, setting
from .test_fallback import same

ROUND = Round(2, 5)


def members(count: int = 7) -> list[Client]:
    """Of two architectures, with different amounts of data and weights."""
    return [
        member((plain_model, full_model)[number % 2](number), count=5 + number, number=number)
        for number in range(count)
    ]


ADAM = {"optimizer": "adam", "learning_rate": 0.003, "weight_decay": 0.01}
"""With decay: of a bias before batch norm there is no gradient but rounding, which Adam would blow up."""


def given(**more: Any) -> Setting:
    return setting(Mean(sent=("head",)), **{"momentum": 0.9, "epochs": 2, **more})


def assert_as_loop(made: Setting, clients: list[Client], **options: Any) -> Stacked:
    """Train and evaluate on both engines; the stacked one may not fall back."""
    jobs = [job(client) for client in clients]
    stacked = Stacked(made, **options)
    same(list(Loop(made).train(ROUND, jobs)), list(stacked.train(ROUND, jobs)))
    evaluations = sorted(stacked.evaluate(jobs), key=lambda evaluation: evaluation.client)
    assert evaluations == list(Loop(made).evaluate(jobs))
    assert stacked.notes == ()
    return stacked
