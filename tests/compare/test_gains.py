"""How many clients gain and how many lose, counted by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from potluck.compare.comparing import compare_runs
from potluck.compare.gains import Gains, client_gains
from potluck.compare.tables import markdown, plain, show
from potluck.compare.tables.gains import in_words
from potluck.errors import ConfigError
from potluck.results import read_runs
from results import made


def test_counted_by_hand(tmp_path: Path) -> None:
    # The first round must not count, nor the client that has no test samples.
    made.run(tmp_path / "a", "standalone", accuracies=((0.1,) * 5, (0.4, 0.5, 0.3, None, 0.7)))
    made.run(tmp_path / "b", "fd", accuracies=((0.9,) * 5, (0.3, 0.6, 0.7, None, 0.7)))
    found = client_gains(read_runs([tmp_path])[0])
    assert found.keys() == {"fd"}
    gains = found["fd"]
    assert (gains.count, gains.gain, gains.lose, gains.equal) == (4, 2, 1, 1)
    assert gains.mean == pytest.approx(0.1)
    assert gains.median == pytest.approx(0.05)
    assert gains.worst == pytest.approx(-0.1)
    assert gains.best == pytest.approx(0.4)
    assert in_words(gains) == (
        "2 of 4 clients gain (at best +40.0 points), 1 lose (at worst -10.0), 1 equal; median change +5.0 points"
    )


def test_the_same_difference_is_equal_though_not_to_the_last_bit() -> None:
    assert Gains.between([0.1 + 0.2], [0.3]) == Gains(1, 0, 0, 1, 0.0, 0.0, 0.0, 0.0)


def test_nobody_loses_and_nobody_is_there() -> None:
    gains = Gains.between([0.5, 0.6], [0.4, 0.6])
    assert gains is not None and gains.worst == 0
    assert in_words(gains) == "1 of 2 clients gain (at best +10.0 points), 0 lose, 1 equal; median change +5.0 points"
    assert Gains.between([None, 0.5], [0.5, None]) is None
    with pytest.raises(ConfigError, match="2 clients cannot be paired with 1"):
        Gains.between([0.1, 0.2], [0.1])


def test_clients_are_paired_within_a_seed_alone(tmp_path: Path) -> None:
    for seed, (alone, together) in {0: (0.2, 0.3), 1: (0.8, 0.7)}.items():
        made.run(tmp_path / f"a{seed}", "standalone", seed=seed, accuracies=((alone, alone),))
        made.run(tmp_path / f"b{seed}", "fd", seed=seed, accuracies=((together, together),))
    made.run(tmp_path / "c", "fml", seed=2, accuracies=((1.0, 1.0),))  # with nobody to compare to
    made.run(tmp_path / "d", "fedproto", accuracies=((1.0, 1.0),), settings={"partition": "iid"})
    found = client_gains(read_runs([tmp_path])[0])
    assert found.keys() == {"fd"}
    assert (found["fd"].count, found["fd"].gain, found["fd"].lose) == (4, 2, 2)
    with pytest.raises(ConfigError, match="unknown baseline 'pfedes'"):
        client_gains(read_runs([tmp_path])[0], "pfedes")


def test_said_under_the_table_and_in_every_form(tmp_path: Path) -> None:
    made.run(tmp_path / "a", "pfedafm", accuracies=((0.6, 0.5, 0.7),))
    made.run(tmp_path / "b", "standalone", accuracies=((0.5, 0.6, 0.4),))
    comparison = compare_runs(read_runs([tmp_path])[0], protocol="papers")
    assert comparison.baseline == "standalone"  # though it is not the first
    console = Console(width=80, file=io.StringIO(), record=True)
    show(console, comparison)
    text = console.export_text()
    said = "pFedAFM: 2 of 3 clients gain (at best +30.0 points), 1 lose (at worst -10.0), 0 equal; median change +10.0"
    assert max(map(len, text.splitlines())) <= 80
    for form in (text, markdown(comparison)):
        assert said in " ".join(form.split())
        assert "Every client compared with itself under Standalone (test accuracy, last round):" in form
    values = {each["method"]: each for each in json.loads(json.dumps(plain(comparison)))["methods"]}
    assert values["pfedafm"]["gain"] == 2
    assert values["pfedafm"]["worst_change"] == pytest.approx(-0.1)
    assert values["standalone"]["gain"] is None
