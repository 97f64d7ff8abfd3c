"""A run goes on with what it began with, and is compared with runs of the same data alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import potluck
from potluck.compare.comparing import compare_runs
from potluck.config import make_config
from potluck.data.transform import Transform
from potluck.errors import RunError
from potluck.experiment import make_clients
from potluck.joining import inputs
from potluck.results import read_runs
from potluck.run.inputs import COUNTS, Inputs, digest
from results import made
from run import tiny

Pools = dict[str, tuple[Tensor, Tensor]]


def federation(
    out: Path, change: Callable[[Pools, nn.Module], None] | None = None, **settings: Any
) -> potluck.Federation:
    """A small federation whose client 1 holds what ``change`` makes of it."""
    clients = []
    for number in range(3):
        generator = torch.Generator().manual_seed(number)
        x, y = torch.randn(6, 4, generator=generator), torch.arange(6) % 3
        pools = {name: (x.clone(), y.clone()) for name in ("train", "validation", "test")}
        with potluck.draws.initial_weights(number):
            net = nn.Linear(4, 3)
        if change and number == 1:
            change(pools, net)
        clients.append(potluck.Client(net, **pools))
    given = {"device": "cpu", "checkpoint_every": 1, "public": (torch.ones(2, 4), torch.tensor([0, 1]))}
    return potluck.Federation("fedavg", clients, out=out, **{**given, **settings})


def _negate(pools: Pools, name: str, part: int) -> None:
    pools[name][part][0] = pools[name][part][0] * -1 + part


@torch.no_grad()
def _other_weights(_pools: Pools, net: nn.Module) -> None:
    next(net.parameters()).add_(1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda pools, _net: _negate(pools, "train", 0), "the training inputs of client 1"),
        (lambda pools, _net: _negate(pools, "train", 1), "the training labels of client 1"),
        (lambda pools, _net: _negate(pools, "validation", 0), "the validation inputs of client 1"),
        (lambda pools, _net: _negate(pools, "test", 0), "the test inputs of client 1"),
        (
            lambda pools, _net: pools.update(test=(torch.empty(0), torch.arange(0))),
            "the test inputs of client 1, the test labels of",
        ),
        (_other_weights, "the initial weights of client 1"),
    ],
)
def test_a_run_goes_on_with_nothing_else(tmp_path: Path, change: Any, said: str) -> None:
    federation(tmp_path / "run").run(1)
    (tmp_path / "run/summary.json").unlink()
    before = tiny.tree(tmp_path / "run")
    for to_read in (False, True):
        with pytest.raises(RunError, match=f"Changed: {said}.*Put them back as they were, or start a new run"):
            federation(tmp_path / "run", change).restore(to_read=to_read)
    assert {**before, ".lock": b""} == {**tiny.tree(tmp_path / "run"), ".lock": b""}
    again = federation(tmp_path / "run")
    assert again.restore() == []
    assert again.run(2).summary["rounds"] == 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"public": (torch.zeros(2, 4), torch.tensor([0, 1]))}, "the public inputs"),
        ({"public": (torch.ones(2, 4), torch.tensor([0, 2]))}, "the public labels"),
        ({"transform": Transform(mean=(0.5,), std=(0.5,))}, "the preparation of inputs"),
    ],
)
def test_what_all_clients_share(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    federation(tmp_path / "run").run(1)
    with pytest.raises(RunError, match=f"Changed: {said}"):
        federation(tmp_path / "run", **settings).restore(to_read=True)


def test_before_the_first_checkpoint_too(tmp_path: Path) -> None:
    federation(tmp_path / "run").run(1)
    (tmp_path / "run/summary.json").unlink()
    for manifest in (tmp_path / "run/checkpoint").rglob("manifest.json"):
        manifest.unlink()
    with pytest.raises(RunError, match="the initial weights of client 1"):
        federation(tmp_path / "run", _other_weights).restore()


@pytest.mark.parametrize("content", [None, "{}", "[", "[]", '{"common": {}, "clients": {"training inputs": "abc"}}'])
def test_what_is_not_recorded_is_not_taken_for_the_same(tmp_path: Path, content: str | None) -> None:
    federation(tmp_path / "run").run(1)
    path = tmp_path / "run/inputs.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(RunError, match=r"cannot be checked\. Start a new run" if content is None else "is damaged"):
        federation(tmp_path / "run").restore(to_read=True)


@pytest.mark.parametrize("column", ["architecture", "initial weights", "training inputs"])
def test_a_column_that_is_missing_is_damage(tmp_path: Path, column: str) -> None:
    federation(tmp_path / "run").run(1)
    path = tmp_path / "run/inputs.json"
    content = json.loads(path.read_text())
    del content["clients"][column]
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="is damaged: it does not say what the run began with"):
        federation(tmp_path / "run").restore(to_read=True)


def test_a_digest_is_of_numbers_type_and_shape() -> None:
    x = torch.arange(6.0)
    different = [x, x.double(), x.view(2, 3), x + 1, x.bfloat16(), x.int(), x > 2]
    assert len({digest(each) for each in different}) == len(different)
    assert digest(x.view(2, 3).t()) == digest(x.view(2, 3).t().contiguous())
    assert digest(x, x) != digest(x)
    assert digest(torch.tensor(1)) != digest(torch.tensor([1]))


def test_networks_that_share_an_architecture_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config({"algorithm": "standalone", "clients": 6, "models": "cnn-5", "partition": "iid"})
    calls = []

    def build(*arguments: object) -> nn.Module:
        calls.append(arguments)
        return nn.Linear(2, 2)

    monkeypatch.setattr("potluck.models.build", build)
    source = tiny.load()
    found = inputs(make_clients(config, source), None, Transform())
    assert len(calls) == 1
    assert found.common["data set"] == digest(source.x, source.y)
    own = make_clients(config.model_copy(update={"initial_weights": "per-client"}), source)
    assert len(set(inputs(own, None, Transform()).clients["initial weights"])) == 6
    assert len(calls) == 1


def test_nothing_is_kept_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.federation.inputs", lambda *_: pytest.fail("digests of a run in memory"))
    made = federation(tmp_path)
    made = potluck.Federation("standalone", list(made.clients), device="cpu")
    assert made.run(1).summary["rounds"] == 1


def test_how_many_samples_a_client_holds_is_recorded_and_follows_from_them(tmp_path: Path) -> None:
    made = federation(tmp_path / "run")
    made.run(1)
    found = Inputs.read(tmp_path / "run")
    assert found is not None
    assert found.counts() == [len(client.train) for client in made.clients]
    earlier = Inputs(found.common, {name: column for name, column in found.clients.items() if name != COUNTS})
    assert earlier.counts() is None
    assert earlier.difference(found) == ""


def test_no_digest_in_what_reports_are_made_of(tmp_path: Path) -> None:
    federation(tmp_path / "run").run(1)
    found = Inputs.read(tmp_path / "run")
    assert found is not None
    digests = {
        *found.common.values(),
        *(each for name, column in found.clients.items() if name != COUNTS for each in column),
    } - {""}
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file() and path.name != "inputs.json":
            assert not [each for each in digests if each.encode() in path.read_bytes()], path


# ---- the command line -----------------------------------------------------------------------------------------------

RUN = ("--clients", 2, "--partition", "iid", "--models", "mlp-4", "--device", "cpu", "--rounds", 1)


def write_data(path: Path, by: int = 0) -> Path:
    generator = np.random.default_rng(0)
    x = generator.integers(0, 200, size=(60, 1, 4, 4), dtype=np.uint8)
    np.savez(path, x=x + np.uint8(by), y=np.arange(60) % 3)
    return path


def test_a_data_set_that_changed(potluck: tiny.Command, tmp_path: Path) -> None:
    data = write_data(tmp_path / "t.npz")
    out = tmp_path / "run"
    assert potluck("run", "standalone", "--data", data, *RUN, "--out", out).code == 0
    (out / "summary.json").unlink()
    write_data(data, by=1)
    ran = potluck("resume", out)
    assert ran.code == 2
    assert "Changed: the data set, the training inputs of clients 0, 1" in " ".join(ran.err.split())
    write_data(data)
    assert potluck("resume", out).code == 0


def test_a_comparison_takes_up_runs_of_the_same_data_alone(potluck: tiny.Command, tmp_path: Path) -> None:
    data = write_data(tmp_path / "t.npz")
    command = ("compare", "standalone", "fd", "--data", data, *RUN, "--jobs", 1, "--no-report", "--out", tmp_path / "c")
    assert potluck(*command).code == 0
    write_data(data, by=1)
    ran = potluck(*command)
    assert ran.code == 2
    said = "has changed since. Put the data set back as it was, remove the run to make it again, or give another --out."
    assert said in " ".join(ran.err.split())
    tuned = potluck("tune", "standalone", "--data", data, *RUN, "--trials", 1, "--jobs", 1, "--out", tmp_path / "c")
    assert tuned.code == 2 and "has changed since" in " ".join(tuned.err.split())
    data.unlink()  # as on a machine that only makes the table
    ran = potluck(*command)
    assert ran.code == 0
    assert "used its present content is unknown: it is not here" in " ".join(ran.err.split() + ran.out.split())
    (tmp_path / "c/fd/seed-0/inputs.json").unlink()
    ran = potluck(*command)
    assert ran.code == 2 and "has no inputs.json" in ran.err


def test_clients_with_other_samples_are_not_paired(tmp_path: Path) -> None:
    made.run(tmp_path / "a", "standalone", accuracies=((0.5, 0.5, 0.5),))
    other = made.run(tmp_path / "b", "fd", accuracies=((0.6, 0.7, 0.9),))
    path = other / "inputs.json"
    content = json.loads(path.read_text())
    content["clients"]["test inputs"][2] = "other"
    path.write_text(json.dumps(content))
    found = compare_runs(read_runs([tmp_path])[0])
    assert found.warnings == ["1 of 3 clients hold other samples under FD than under Standalone, and are not paired."]
    row = found.rows[1]
    assert row.difference is not None and row.gains is not None
    assert (row.difference.count, row.gains.count) == (2, 2)
    assert row.difference.mean == pytest.approx(0.15)
    content["clients"]["training inputs"] = ["x", "y", "z"]
    path.write_text(json.dumps(content))
    found = compare_runs(read_runs([tmp_path])[0])
    assert found.rows[1].gains is None
    assert "were run on different data: a client holds other samples" in found.warnings[0]
    path.unlink()
    found = compare_runs(read_runs([tmp_path])[0])
    assert found.rows[1].gains is not None
    assert "records which samples its clients hold: they are paired by seed and settings" in found.warnings[0]


def test_the_same_settings_on_other_data_are_another_run(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        path = made.run(tmp_path / name, "fd")
        if name == "b":
            config = make_config({"algorithm": "fd", "clients": 2})
            made.write_inputs(path, config.complete(), "changed")
    runs, problems = read_runs([tmp_path])
    assert [run.path.name for run in runs] == ["a", "b"]
    assert len(problems) == 1 and "same run" in problems[0]
    assert [row.group.name for row in compare_runs(runs).rows] == ["fd", "fd data 2"]
