"""In which numbers clients compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import potluck
from potluck import Batch, Networks, Task
from potluck.algorithms import algorithm, names
from potluck.algorithms.standalone import Standalone
from potluck.contract import Received
from potluck.engines.precision import Precision
from potluck.engines.stacked.reading import predict_batch
from potluck.engines.stacked.template import Template

CPU = torch.device("cpu")
QUIET: dict[str, Any] = {"watch": lambda _event: None}


def clients(model: torch.nn.Module | None = None) -> list[potluck.Client]:
    torch.manual_seed(0)
    x, y = torch.randn(24, 1, 6, 6), torch.arange(24) % 3
    x = x + y.view(-1, 1, 1, 1)
    layers = (torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.ReLU())
    return [
        potluck.Client(model or torch.nn.Sequential(*layers, torch.nn.Linear(8, 3)), train=(x, y), test=(x, y))
        for _ in range(2)
    ]


@pytest.mark.parametrize(
    ("name", "dtype"), [("float32", torch.float32), ("bf16", torch.float32), ("tf32", torch.float32)]
)
def test_weights_are_float32(name: str, dtype: torch.dtype) -> None:
    run = potluck.Federation("fedavg", clients(), device="cpu", precision=name)
    run.run(1, **QUIET)
    assert {tensor.dtype for tensor in run.server.values()} == {dtype}
    weights = potluck.Networks(run.networks(0)).state()
    assert {tensor.dtype for tensor in weights.values()} == {dtype}


def seen_types(precision: str, engine: str) -> set[torch.dtype]:
    seen: set[torch.dtype] = set()

    class Watching(Standalone):
        def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
            logits = net(batch.x)
            seen.add(logits.dtype)
            return batch.cross_entropy(logits)

    run = potluck.Federation(Watching, clients(), device="cpu", precision=precision, engine=engine)
    run.run(1, **QUIET)
    return seen


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_losses_are_computed_in_it(engine: str) -> None:
    assert torch.bfloat16 in seen_types("bf16", engine)
    assert torch.bfloat16 not in seen_types("float32", engine)


def predicted_alone(precision: str) -> Tensor:
    run = potluck.Federation("standalone", clients(), device="cpu", precision=precision)
    return run.logits(0, run.clients[0].test.x)


def predicted_stacked(precision: str) -> Tensor:
    first = clients()[0]
    template = Template({"body": first.architecture.build()}, Task((1, 6, 6), 3), Precision(precision, CPU))

    class Whole(Standalone):
        def predict(self, net: Networks, x: Tensor, received: Received) -> Tensor:
            return net.body(x)

    x = first.test.x
    weights = {path: tensor.unsqueeze(0) for path, tensor in template.own.items()}
    places = torch.arange(len(x)).unsqueeze(0)
    batch = Batch((x.unsqueeze(0),), first.test.y.unsqueeze(0), torch.ones(1, len(x)), places, places)
    return predict_batch(template, Whole(), weights, {}, batch)[0]


@pytest.mark.parametrize("predicted", [predicted_alone, predicted_stacked])
def test_predictions_are_computed_in_it_and_given_in_float32(predicted: Callable[[str], Tensor]) -> None:
    exact, found = predicted("float32"), predicted("bf16")
    assert exact.dtype == found.dtype == torch.float32
    assert torch.allclose(found, exact, atol=0.05)
    assert not torch.equal(found, exact)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("name", names())
def test_every_algorithm_in_bfloat16(name: str, engine: str) -> None:
    """It runs, and comes near what it computes in float32."""
    public = (torch.randn(6, 1, 6, 6), torch.arange(6) % 3) if "public data" in algorithm(name).needs else None
    held = []
    for precision in ("float32", "bf16"):
        run = potluck.Federation(name, clients(), device="cpu", precision=precision, engine=engine, public=public)
        run.run(2, **QUIET)
        held.append(torch.cat([w.flatten() for w in potluck.Networks(run.networks(0)).state("body").values()]))
    assert float((held[0] - held[1]).norm() / held[0].norm()) < 0.02
    assert not torch.equal(held[0], held[1])


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_batch_norm_in_bfloat16(engine: str) -> None:
    layers = (torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten())
    rows = (torch.nn.Linear(64, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    found = []
    for precision in ("float32", "bf16"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*layers, *rows)
        run = potluck.Federation("fedproto", clients(model), device="cpu", precision=precision, engine=engine)
        run.run(2, **QUIET)
        assert run.engine.notes == ()
        found.append(potluck.Networks(run.networks(0)).state("body"))
    for path, exact in found[0].items():
        assert torch.allclose(found[1][path], exact, rtol=0.05, atol=0.02), path


def test_what_is_collected_is_exact() -> None:
    """Three hundred samples are three hundred: bfloat16 cannot count so far."""
    x, y = torch.randn(300, 1, 6, 6), torch.zeros(300, dtype=torch.int64)
    layers = (torch.nn.Flatten(), torch.nn.Linear(36, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    client = potluck.Client(torch.nn.Sequential(*layers), train=(x, y))
    run = potluck.Federation("fedproto", [client], device="cpu", precision="bf16")
    outcome = next(iter(run.engine.train(potluck.Round(1, 1), [run.job(0, potluck.Round(1, 1))])))
    assert outcome.upload.tensors["counts"].tolist() == [300]


def test_auto_goes_by_the_device() -> None:
    assert Precision.of("auto", CPU).name == "float32"
    assert Precision.of("auto", torch.device("cuda")).name == "tf32"
    assert Precision.of("float64", CPU).dtype == torch.float64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("name", "allowed"), [("float32", False), ("tf32", True), ("bf16", True)])
def test_a_gpu_rounds_factors_only_where_it_may(name: str, allowed: bool) -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    with Precision(name, torch.device("cuda")).working():
        assert torch.backends.cuda.matmul.allow_tf32 == torch.backends.cudnn.allow_tf32 == allowed
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before
