"""What is recorded of clients beside their scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import potluck
from potluck.experiment import open_run
from potluck.metrics.observe import GRADIENT
from run import tiny
from test_python_runs import clients


def test_the_norm_of_the_gradient_is_that_of_the_whole_loss() -> None:
    federation = potluck.Federation("standalone", clients(), device="cpu", measure="gradient-norm", precision="float64")
    history = federation.run(2, watch=potluck.Callback())
    norms = []
    for client in federation.clients:
        net = federation.networks(client)
        model = torch.nn.Sequential(net["body"], net["head"])
        F.cross_entropy(model(client.train.x.double()), client.train.y).backward()  # type: ignore[no-untyped-call]
        gradients = [weight.grad for weight in model.parameters()]
        norms.append(sum(float((gradient**2).sum()) for gradient in gradients if gradient is not None))
    assert history.rounds[-1]["observed"][GRADIENT] == pytest.approx(sum(norms) / len(norms), rel=1e-9)


@pytest.mark.parametrize("method", ["pfedes", "fedclassavg", "kt-pfl", "fedapen", "fedproto"])
def test_measuring_changes_no_number(potluck: tiny.Command, tmp_path: Path, method: str) -> None:
    arguments = (method, *tiny.ARGUMENTS, "--rounds", 2, "--set", "public=9")
    assert potluck("run", *arguments, "--out", tmp_path / "plain").code == 0
    assert potluck("run", *arguments, "--out", tmp_path / "run", "--set", "measure=gradient-norm").code == 0
    measured, plain = tiny.rounds(tmp_path / "run"), tiny.rounds(tmp_path / "plain")
    norms = [record.pop("observed")[GRADIENT] for record in measured if record["round"]]
    for record in measured:
        record.pop("observed", None)
    assert all(norm > 0 for norm in norms)
    assert measured == plain
    lines = [json.loads(line) for line in (tmp_path / "run/clients.jsonl").read_text().splitlines()]
    of_last = [line["observed"][GRADIENT] for line in lines if line["round"] == 2]
    assert sum(of_last) / len(of_last) == pytest.approx(norms[-1])
    assert (tmp_path / "run/summary.json").read_bytes() == (tmp_path / "plain/summary.json").read_bytes()


def test_the_mixing_vector_is_recorded(potluck: tiny.Command, tmp_path: Path) -> None:
    assert potluck("run", "pfedafm", *tiny.ARGUMENTS, "--rounds", 2, "--out", tmp_path / "run").code == 0
    federation = open_run(tmp_path / "run")
    mixers = [federation.networks(client)["mixer"].state_dict()["weight"] for client in federation.clients]
    mixing = [float(mixer.double().mean()) for mixer in mixers]
    assert tiny.rounds(tmp_path / "run")[-1]["observed"]["mixing"] == pytest.approx(sum(mixing) / len(mixing))
    assert all(0 <= value <= 1 for value in mixing)


def test_what_cannot_be_measured(potluck: tiny.Command, tmp_path: Path) -> None:
    said = potluck("run", "standalone", "--set", "measure=temperature", "--out", tmp_path / "run")
    assert said.code == 2
    assert "measure: 'temperature'" in said.err
    assert "gradient-norm" in said.err
