"""Each algorithm equals the literal transcription of its paper's equations: float64, to 1e-9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck import Batch, Networks, Task
from potluck.algorithms.fedclassavg import FedClassAvg
from potluck.algorithms.pfedafm import PFedAFM
from potluck.contract import Received

from . import literal
from .twin import CLASSES, WIDTH, Twin, flat_layer, part, rule


def whole(twin: Twin) -> list[literal.LiteralClient]:
    """The clients with their models in one piece."""
    return [literal.LiteralClient(c.forward, part(c.params, "body", "head"), c.x, c.y) for c in twin.literal]


def extract(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    hidden = F.conv2d(x, p["extractor.0.weight"], p["extractor.0.bias"], padding=1).clamp(min=0)
    return F.conv2d(hidden, p["extractor.2.weight"], p["extractor.2.bias"], padding=1).clamp(min=0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pfedes(seed: int) -> None:
    twin = Twin("pfedes", seed, ["flat", "wide", "conv"], mu=0.3, extractor_epochs=3)
    theta = twin.server
    twin.compare(*literal.pfedes(whole(twin), twin.cohorts, twin.batches(2, 3), rule(), extract, theta, mu=0.3))
    assert not torch.equal(twin.federation.server["extractor.0.weight"], theta["extractor.0.weight"])


def test_pfedes_with_a_learning_rate_of_the_extractors_own() -> None:
    twin = Twin("pfedes", 3, ["flat", "conv"], mu=0.5, extractor_epochs=1, extractor_learning_rate=0.03)
    expected = literal.pfedes(
        whole(twin), twin.cohorts, twin.batches(2, 1), rule(), extract, twin.server, mu=0.5, extractor_rule=rule(0.03)
    )
    twin.compare(*expected)


@pytest.mark.parametrize("seed", [0, 1])
def test_pfedes_simultaneous(seed: int) -> None:
    twin = Twin("pfedes", seed, ["flat", "conv"], mu=0.4, training="simultaneous")
    expected = literal.pfedes_simultaneous(
        whole(twin), twin.cohorts, twin.batches(2), rule(), extract, twin.server, mu=0.4
    )
    twin.compare(*expected)


@pytest.mark.parametrize(("seed", "kind"), [(0, "flat"), (1, "conv"), (2, "conv")])
def test_fedavg(seed: int, kind: str) -> None:
    twin = Twin("fedavg", seed, [kind])
    twin.compare(*literal.fedavg(whole(twin), twin.cohorts, twin.batches(2), rule(), twin.server))


@pytest.mark.parametrize(("seed", "kind"), [(0, "flat"), (1, "conv"), (2, "conv")])
def test_fedprox(seed: int, kind: str) -> None:
    twin = Twin("fedprox", seed, [kind], mu=0.7)
    twin.compare(*literal.fedprox(whole(twin), twin.cohorts, twin.batches(2), rule(), twin.server, mu=0.7))


def test_standalone_is_fedavg_that_never_receives() -> None:
    """Each client alone: FedAvg with itself as the whole federation."""
    twin = Twin("standalone", 4, ["flat", "conv"])
    held = []
    for number, client in enumerate(whole(twin)):
        mine = [[number] if number in cohort else [] for cohort in twin.cohorts]
        held.append(literal.fedavg(whole(twin), mine, twin.batches(2), rule(), client.params)[0])
    twin.compare({}, held)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lg_fedavg(seed: int) -> None:
    twin = Twin("lg-fedavg", seed, ["flat", "conv"])
    twin.compare(*literal.lgfedavg(twin.literal, twin.cohorts, twin.batches(2), rule(), twin.server))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("step", ["representation", "client"])
def test_fedgh(seed: int, step: Literal["representation", "client"]) -> None:
    twin = Twin("fedgh", seed, ["flat", "conv"], header_step=step, header_learning_rate=0.3, header_passes=2)
    header = twin.server
    expected = literal.fedgh(
        twin.literal, twin.cohorts, twin.batches(2), rule(), header, server_learning_rate=0.3, mode=step, passes=2
    )
    twin.compare(*expected)
    assert not torch.equal(twin.federation.server["head.weight"], header["head.weight"])


class SmallPFedAFM(PFedAFM):
    """With an extractor that is smooth, for inputs of 5 pixels."""

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        return {"extractor": nn.Sequential(nn.Flatten(), nn.Linear(50, task.common_width()), nn.Tanh())}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("training", ["iterative", "end-to-end"])
@pytest.mark.parametrize(("mixing", "aggregation"), [("bounded", "mean"), ("free", "mean"), ("bounded", "last")])
def test_pfedafm(
    seed: int, training: Literal["iterative", "end-to-end"], mixing: str, aggregation: Literal["mean", "last"]
) -> None:
    settings: dict[str, Any] = {"training": training, "mixing": mixing, "aggregation": aggregation}
    twin = Twin(SmallPFedAFM, seed, ["flat", "conv"], mixer_learning_rate=0.5, **settings)
    clients = [
        literal.MixedClient(c.body, c.head, c.params, c.x, c.y, lambda p, x: flat_layer(p, x, "extractor.1"))
        for c in twin.literal
    ]
    # Equation 6 gives alpha a learning rate and nothing else.
    expected = literal.pfedafm(
        clients, twin.cohorts, twin.batches(2, 2), rule(), literal.Rule(0.5), twin.server, clamp=mixing == "bounded",
        training=training, aggregation="last" if aggregation == "last" else "average",
    )  # fmt: skip
    twin.compare(*expected)
    alpha = expected[1][twin.cohorts[-1][0]]["mixer.weight"]
    assert not torch.equal(alpha, torch.ones(WIDTH, dtype=alpha.dtype))


def second_view(x: Tensor) -> Tensor:
    return 0.8 * x.flip(-1) + 0.1


class TwoViews(FedClassAvg):
    """With a second view that is no chance, for the transcription to know it."""

    def model_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        return super().model_loss(net, replace(batch, views=(batch.x, second_view(batch.x))), received)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rho": 0},
        {"contrast": "off"},
        {"contrast": "release"},
        {"averaging": False, "rho": 0},
        {"share": "all"},
    ],
    ids=str,
)
def test_fedclassavg(seed: int, settings: dict[str, Any]) -> None:
    settings = {"rho": 0.6, "temperature": 0.5, **settings}
    twin = Twin(TwoViews, seed, ["conv"] if settings.get("share") == "all" else ["flat", "conv"], **settings)
    clients = [literal.TwoViewClient(c.body, c.head, c.params, c.x, c.y, second_view(c.x)) for c in twin.literal]
    contrast = settings.get("contrast", "normalised")
    expected = literal.fedclassavg(
        clients, twin.cohorts, twin.batches(2), rule(), twin.server, rho=settings["rho"], tau=0.5,
        scaling="release" if contrast == "release" else "paper", with_contrastive=contrast != "off",
        averaging=settings.get("averaging", True), share=settings.get("share", "classifier"),
    )  # fmt: skip
    twin.compare(*expected)


def test_the_case_has_what_it_is_meant_to_have() -> None:
    """Somebody is never sampled in some seed, cohorts differ, and some class is missing in some cohort."""
    twins = [Twin("standalone", seed, ["flat"]) for seed in range(3)]
    assert any(set(range(5)) - {c for cohort in twin.cohorts for c in cohort} for twin in twins)
    assert all(len(cohort) == 3 for twin in twins for cohort in twin.cohorts)
    present = [{int(y) for c in cohort for y in twin.literal[c].y} for twin in twins for cohort in twin.cohorts]
    assert any(len(labels) < CLASSES for labels in present)
