"""Runs are gathered over seeds, and named by what sets them apart."""

from __future__ import annotations

from pathlib import Path

from potluck.results import differing, groups, read_runs
from results import made


def test_groups_are_named_by_what_differs(tmp_path: Path) -> None:
    for seed in (1, 0):
        made.run(tmp_path / f"s{seed}", seed=seed)
        for mu in (0.1, 0.3):
            made.run(tmp_path / f"p{mu}-{seed}", "pfedes", seed=seed, settings={"algorithm.mu": mu})
    made.run(tmp_path / "f", "fedavg", settings={"checkpoint_every": 3, "data_dir": "/elsewhere"})
    runs, _ = read_runs([tmp_path])
    found = groups(runs)
    assert [(group.name, group.seeds) for group in found] == [
        ("fedavg", [0]),
        ("pfedes mu=0.1", [0, 1]),
        ("pfedes mu=0.3", [0, 1]),
        ("standalone", [0, 1]),
    ]
    assert found[1].title == "pFedES mu=0.1"
    assert found[1].algorithm == "pfedes"
    assert differing(runs) == {"models": ["cnn-1", "cnn-1..5"]}


def test_settings_of_the_run_that_differ(tmp_path: Path) -> None:
    made.run(tmp_path / "a", settings={"epochs": 1, "split": "8:2"})
    made.run(tmp_path / "b", settings={"epochs": 5})
    made.run(tmp_path / "c", "fd", settings={"epochs": 5})
    runs, _ = read_runs([tmp_path])
    assert [group.name for group in groups(runs)] == ["standalone epochs=1 split=8:2", "standalone epochs=5", "fd"]
    assert differing(runs, compared=["epochs"]) == {"split": ["8:2", None]}
    assert list(differing(runs)) == ["epochs", "split"]


def test_a_method_of_a_users_own(tmp_path: Path) -> None:
    made.renamed(made.run(tmp_path / "a"), "my-own")
    runs, problems = read_runs([tmp_path])
    assert problems == []
    assert [(group.name, group.title) for group in groups(runs)] == [("my-own", "my-own")]


def test_a_date_in_a_configuration_is_a_setting_like_any_other(tmp_path: Path) -> None:
    for seed in (0, 1):
        config = made.run(tmp_path / f"{seed}", seed=seed) / "config.toml"
        config.write_text(f"day = 2024-01-01\n{config.read_text()}")
    runs, problems = read_runs([tmp_path])
    assert problems == []
    assert [group.seeds for group in groups(runs)] == [[0, 1]]
