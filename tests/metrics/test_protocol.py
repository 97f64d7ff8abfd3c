"""The three protocols, on a history written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from potluck.metrics.accuracy import Evaluation, Scores
from potluck.metrics.protocol import COSTS, MEANING, History, client_scores, mean_scores


def record(
    number: int, participants: float | None, everyone: tuple[float | None, float | None] | None = None
) -> dict[str, Any]:
    """A round: accuracy of the participants; accuracy and validation accuracy of all clients, if all were evaluated."""
    return {
        "round": number,
        "participants": {"accuracy": participants, "validation_accuracy": 0.99},
        "all": everyone and {"accuracy": everyone[0], "validation_accuracy": everyone[1]},
        **{name: 10**place * number for place, name in enumerate(COSTS)},
    }


def test_the_three_protocols() -> None:
    history = History(
        [
            record(1, 0.30),
            record(2, 0.80, (0.50, 0.61)),  # the best of all clients by test, which is no protocol
            record(3, 0.95),  # the best round of participants, in which not all were evaluated
            record(4, 0.70, (0.45, 0.70)),  # the best by validation, not by test
            record(5, 0.20, (0.40, 0.65)),  # neither
            record(6, 0.10),  # a run that was stopped: the last round in which all were evaluated is round 5
        ]
    )
    summary = history.summary
    assert (summary["all_last"], summary["all_last_round"]) == (0.40, 5)
    assert (summary["all_best_validation"], summary["all_best_validation_round"]) == (0.45, 4)
    assert (summary["participants_best"], summary["participants_best_round"]) == (0.95, 3)
    assert summary["rounds"] == 6
    assert summary["bytes_up"] == 1 + 2 + 3 + 4 + 5 + 6
    assert summary["flops"] == 21 * 10 ** COSTS.index("flops")


def test_of_equal_rounds_the_first_counts() -> None:
    summary = History([record(n, 0.5, (n / 10, 0.5)) for n in (1, 2, 3)]).summary
    assert summary["participants_best_round"] == summary["all_best_validation_round"] == 1
    assert summary["all_last_round"] == 3


def test_without_validation_data_there_is_no_choice_by_validation() -> None:
    summary = History([record(1, 0.5, (0.5, None)), record(2, 0.6, (0.6, None))]).summary
    assert summary["all_best_validation"] is summary["all_best_validation_round"] is None
    assert summary["all_last"] == 0.6


def test_without_test_data_there_is_no_accuracy() -> None:
    summary = History([record(1, None, (None, None))]).summary
    assert summary["all_last"] is summary["participants_best"] is summary["participants_best_round"] is None


def test_nothing_happened() -> None:
    summary = History().summary
    assert [summary[name] for name in MEANING] == [None, None, None]
    assert [summary[name] for name in ("rounds", *COSTS)] == [0] * (1 + len(COSTS))


def test_enrolment_is_no_round_but_costs() -> None:
    enrolment = {**record(0, 0.99), "bytes_up": 7}
    summary = History([enrolment, record(1, 0.5, (0.4, None))]).summary
    assert (summary["participants_best"], summary["participants_best_round"]) == (0.5, 1)
    assert summary["rounds"] == 1
    assert summary["bytes_up"] == 8


def test_an_accuracy_of_zero_is_a_number() -> None:
    summary = History([record(1, 0.0, (0.0, 0.0))]).summary
    assert [summary[name] for name in MEANING] == [0, 0, 0]


def evaluation(client: int, test: tuple[int, float] | None, validation: float | None = None) -> Evaluation:
    return Evaluation(
        client,
        Scores(test[0], test[1], test[1] / 2, test[1] / 4) if test else None,
        None if validation is None else Scores(1, validation, 0, 0),
    )


def test_a_mean_over_clients_is_unweighted_and_leaves_out_who_has_no_samples() -> None:
    means = mean_scores([evaluation(0, (1000, 0.8), 0.5), evaluation(1, (1, 0.2)), evaluation(2, None, 0.7)])
    assert means == pytest.approx(
        {"accuracy": 0.5, "balanced_accuracy": 0.25, "macro_f1": 0.125, "validation_accuracy": 0.6}
    )
    assert set(mean_scores([evaluation(0, None)]).values()) == {None}


def test_scores_of_one_client() -> None:
    expected = {"accuracy": 0.8, "balanced_accuracy": 0.4, "macro_f1": 0.2, "validation_accuracy": None}
    assert client_scores(evaluation(0, (10, 0.8))) == expected
