"""The table of algorithms: right numbers, 80 columns, settings with their ranges."""

from __future__ import annotations

import json
from io import StringIO
from typing import ClassVar

import pytest
from rich.console import Console, RenderableType

from potluck import algorithms
from potluck.algorithms import State, find, names
from potluck.algorithms.fedavg import FedAvg
from potluck.contract import Task
from potluck.report.algorithms import algorithm_table, overview, setting_table, settings
from run import tiny

SMALL = ("mlp-8", (6,), 3, 2)


def printed(what: RenderableType, width: int = 80) -> str:
    text = StringIO()
    Console(width=width, file=text).print(what)
    return text.getvalue()


def test_every_algorithm_has_its_row() -> None:
    seen: list[str] = []
    rows = overview(*SMALL, watch=seen.append)
    assert [row.name for row in rows] == names() == seen
    text = printed(algorithm_table(rows, *SMALL))
    assert max(map(len, text.splitlines())) <= 80
    for row in rows:
        assert row.unfit is None
        assert row.paper in text
    assert "2 of 3 classes" in " ".join(text.split())
    assert "must be equal" not in text
    assert text.count("≤ ") == 2  # FedKD's parts are as short as what was learned allows
    narrow = printed(algorithm_table(rows, *SMALL), 60)
    assert max(map(len, narrow.splitlines())) <= 60
    assert "…" not in narrow


def test_networks_that_do_not_fit_are_explained() -> None:
    rows = overview("mlp-8,mlp-9", (6,), 3, 2, names=["fedgh", "pfedes"])
    assert rows[0].traffic is None
    assert "8, 9" in printed(algorithm_table(rows, "mlp-8,mlp-9", (6,), 3, 2))
    assert rows[1].traffic is not None


class Failing(FedAvg):
    """Cannot begin."""

    name: ClassVar[str] = "failing"

    def server_state(self, task: Task) -> State:
        raise KeyError("weights")


def test_a_method_that_fails_has_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(algorithms._KNOWN, "failing", Failing)
    row, other = overview(*SMALL, names=["failing", "fedavg"])
    assert "Failing.server_state failed: KeyError: 'weights'" in str(row.unfit)
    assert other.traffic is not None


def test_every_network_is_looked_at() -> None:
    spec = "mlp-8,mlp-8,mlp-9"
    (row, other) = overview(spec, (6,), 3, 2, names=["fedgh", "fedavg"])
    assert "8, 9" in str(row.unfit)
    assert other.unfit is None
    text = " ".join(printed(algorithm_table([row, other], spec, (6,), 3, 2)).split())
    assert "Where all models must be equal, they are mlp-8." in text


@pytest.mark.parametrize(("models", "message"), [("nix", "unknown model 'nix'"), ("cnn-1", "CNN-1 takes images")])
def test_a_network_that_cannot_be_made_is_an_error(models: str, message: str, potluck: tiny.Command) -> None:
    done = potluck("algorithms", "--models", models, "--shape", "6")
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", names())
def test_every_setting_is_explained(name: str) -> None:
    text = printed(setting_table(find(name)))
    assert find(name).title in text
    assert max(map(len, text.splitlines())) <= 80
    for setting in settings(find(name)):
        assert setting.meaning
        assert setting.range
        assert setting.name in text


def test_ranges_defaults_and_the_papers_values() -> None:
    mu, *_, training = settings(find("pfedes"))
    assert (mu.name, mu.default, mu.range) == ("mu", 0.1, "number > 0, <= 0.5")
    # Where the default comes from: the best of a test on test accuracy, and not what the code has.
    assert mu.paper == "0.1 to 0.5, the best test accuracy at 0.1 (arXiv version, section 10, 100 clients); code: 0.5"
    assert training.range == "iterative, simultaneous"
    (averaging,) = [setting for setting in settings(find("fedclassavg")) if setting.name == "averaging"]
    assert (averaging.default, averaging.range) == (True, "true, false")


def test_the_command(potluck: tiny.Command) -> None:
    done = potluck("algorithms", "--models", "mlp-8", "--shape", "6", "--classes", "3", "--json")
    assert done.code == 0
    content = json.loads(done.out)
    assert [row["name"] for row in content["algorithms"]] == names()
    assert content["version"] == 1
    done = potluck("algorithms", "PFedES", "--json")
    assert json.loads(done.out)["settings"][0]["name"] == "mu"
    assert "pFedES" in potluck("algorithms", "pfedes").out
    done = potluck("algorithms", "pfedse")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'pfedes'?" in done.err
    done = potluck("algorithms", "--held", "11")
    assert (done.code, done.err) == (2, "potluck: a client cannot hold 11 of 10 classes: give a number from 1 to 10.\n")
