"""pFedAFM's own special cases."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from potluck import Networks, Payload, Round, Task
from potluck.algorithms import Algorithm, Upload, algorithm
from potluck.models import build

TASK = Task((3, 16, 16), classes=4, width=500)


def held(method: Algorithm) -> Networks:
    torch.manual_seed(0)
    net = Networks(method.networks(build("cnn-2", TASK.shape, 4), TASK), task=TASK)
    net.modules["mixer"].get_parameter("weight").data.fill_(0.25)
    return net


def logits(net: Networks, received: dict[str, Tensor], x: Tensor, **settings: Any) -> Tensor:
    with torch.no_grad():
        return algorithm("pfedafm", settings).predict(net, x, received)


def test_what_predicts() -> None:
    net = held(algorithm("pfedafm"))
    x = torch.randn(3, *TASK.shape)
    received = {path: tensor + 0.01 for path, tensor in net.state("extractor").items()}
    small = net.head(net.call("extractor", x, weights=received))
    own, shared = net.body(x), net.call("extractor", x, weights=received)
    mixed = net.head(0.25 * own + 0.75 * shared)
    assert torch.allclose(logits(net, received, x), mixed)
    assert torch.allclose(logits(net, received, x, predict_with="small"), small)
    assert torch.allclose(logits(net, received, x, predict_with="large"), net(x))
    # The received extractor counts, not the one that the client trained.
    assert not torch.allclose(logits(net, net.state("extractor"), x), mixed)


@pytest.mark.parametrize(("aggregation", "expected"), [("mean", 3.0), ("last", 4.0)])
def test_the_average_or_the_last_client(aggregation: str, expected: float) -> None:
    sent = [
        Upload(k, Payload({"extractor.w": torch.tensor(w)}, {"samples": n})) for k, w, n in ((1, 1.0, 1), (5, 4.0, 2))
    ]
    state = {"extractor.w": torch.tensor(0.0)}
    result = algorithm("pfedafm", {"aggregation": aggregation}).aggregate(state, sent, Round(1, 1), TASK)
    assert float(result["extractor.w"]) == pytest.approx(expected)


@pytest.mark.parametrize(("mixing", "inside"), [("bounded", True), ("free", False)])
def test_the_mixing_vector_is_kept_between_0_and_1(mixing: str, inside: bool) -> None:
    from .test_special_cases import QUIET, client, federation

    run = federation("pfedafm", [client(12, [0, 1, 2])], mixing=mixing, mixer_learning_rate=5.0, learning_rate=0.1)
    run.run(3, **QUIET)
    alpha = run.networks(0)["mixer"].get_parameter("weight")
    assert bool(((alpha >= 0) & (alpha <= 1)).all()) == inside
    assert not torch.equal(alpha, torch.ones_like(alpha))
