"""What a record may hold, and that anything else is one message with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from potluck.errors import RunError
from potluck.run.contents import check_client, check_clients, check_round, check_rounds
from results import made

Record = dict[str, Any]


@pytest.fixture
def records(tmp_path: Path) -> tuple[list[Record], list[Record]]:
    """The rounds and clients of a run of two rounds."""
    run = made.run(tmp_path / "run", accuracies=[[0.5, None], [0.6, 0.8]], cohort=[1], everyone=[2])
    rounds, clients = (
        [json.loads(line) for line in (run / name).read_text().splitlines()]
        for name in ("rounds.jsonl", "clients.jsonl")
    )
    return rounds, clients


def test_records_as_they_are_written(records: tuple[list[Record], list[Record]]) -> None:
    rounds, clients = records
    assert list(check_rounds(rounds, "x")) == rounds
    assert list(check_clients(clients, "x")) == clients
    enrolled = [{**rounds[0], "round": 0, "observed": {"mixing": 0.5}, "loss": None, "more": "text"}, rounds[0]]
    assert list(check_rounds(enrolled, "x")) == enrolled


ROUND: dict[str, tuple[Callable[[Record], object], str]] = {
    "text": (lambda r: r.update(round="one"), "round is 'one', and not a whole number from 0"),
    "null": (lambda r: r.update(round=None), "round is None, and"),
    "true": (lambda r: r.update(round=True), "round is True, and"),
    "a fraction": (lambda r: r.update(round=1.0), "round is 1.0, and"),
    "negative": (lambda r: r.update(round=-1), "round is -1, and"),
    "endless": (lambda r: r.update(bytes_up=10**4000), "bytes_up is 1000"),
    "no cohort": (lambda r: r.pop("cohort"), "it has no 'cohort'"),
    "a cohort of text": (lambda r: r.update(cohort=["0"]), "cohort is not a list of clients"),
    "a cohort twice": (lambda r: r.update(cohort=[0, 0]), "cohort is not in the order of clients"),
    "foreign failures": (lambda r: r.update(failed=[7]), "failed names clients that are not in its cohort"),
    "no scores": (lambda r: r.update(participants=[1]), "participants has no scores"),
    "a score missing": (lambda r: r["participants"].pop("macro_f1"), "it has no 'macro_f1'"),
    "an accuracy of 2": (lambda r: r["participants"].update(accuracy=2), "accuracy is 2, and not from 0 to 1"),
    "a loss of text": (lambda r: r.update(loss="nan"), "loss is 'nan', and not a finite number"),
    "a loss that is not finite": (lambda r: r.update(loss=float("inf")), "loss is inf, and not a finite number"),
    "negative seconds": (lambda r: r.update(seconds=-1), "seconds is negative"),
    "observed": (lambda r: r.update(observed={"mixing": []}), "'mixing' is list of 0, and not a finite number"),
    "a list observed": (lambda r: r.update(observed=[]), "observed is not a table of numbers"),
}  # fmt: skip


@pytest.mark.parametrize("what", ROUND)
def test_rounds_that_are_damaged(records: tuple[list[Record], list[Record]], what: str) -> None:
    change, said = ROUND[what]
    change(records[0][0])
    with pytest.raises(RunError) as raised:
        check_round(records[0][0], "line 1 of x")
    assert str(raised.value).startswith(f"line 1 of x is damaged: {said}")


CLIENT: dict[str, tuple[Callable[[Record], object], str]] = {
    "text": (lambda r: r.update(client="x"), "client is 'x', and not a whole number"),
    "no score": (lambda r: r.pop("accuracy"), "it has no 'accuracy'"),
    "trained for nothing": (lambda r: r.pop("flops"), "it has no 'flops'"),
    "a score of text": (lambda r: r.update(macro_f1="0.5"), "macro_f1 is '0.5', and not a finite number"),
}


@pytest.mark.parametrize("what", CLIENT)
def test_clients_that_are_damaged(records: tuple[list[Record], list[Record]], what: str) -> None:
    change, said = CLIENT[what]
    change(records[1][0])
    with pytest.raises(RunError) as raised:
        check_client(records[1][0], "line 1 of x")
    assert str(raised.value).startswith(f"line 1 of x is damaged: {said}")


@pytest.mark.parametrize("other", [None, 3, "round", [], [[]]])
def test_no_records(other: Any) -> None:
    for check in (check_round, check_client):
        with pytest.raises(RunError, match="x is damaged: it is no record"):
            check(other, "x")


def test_order(records: tuple[list[Record], list[Record]]) -> None:
    rounds, clients = records
    for wrong in (rounds[::-1], [rounds[0], rounds[0]], [rounds[1]]):
        with pytest.raises(RunError, match=r"line \d of x is damaged: round \d is not "):
            list(check_rounds(wrong, "x"))
    for wrong in (clients[::-1], [clients[0], clients[0]]):
        with pytest.raises(RunError, match=r"line 2 of x is damaged: client . in round . does not follow client"):
            list(check_clients(wrong, "x"))
