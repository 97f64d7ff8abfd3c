"""The table of networks: right numbers, 80 columns, and one clear message for what cannot be."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from potluck.contract import Task
from potluck.errors import ConfigError, DataError, ModelError
from potluck.metrics.flops import collecting_cost, predicting_flops
from potluck.models import MLP_EXAMPLES, build, names, representation_width, split
from potluck.report.models import measure, model_table, overview, parse_shape
from run import tiny


def printed(width: int = 80, **asked: str | int) -> list[str]:
    text = StringIO()
    Console(width=width, file=text).print(model_table(overview(**asked)))  # type: ignore[arg-type]
    return text.getvalue().splitlines()


def test_known_numbers() -> None:
    (row,) = overview("cnn-1").models
    assert (row.name, row.parameters, row.representation) == ("cnn-1", 2_621_558, 500)
    assert row.flops == 2 * 4_825_800  # multiply-adds worked out from the layers
    assert row.bytes == 4 * 2_621_558
    (row,) = overview("resnet-18@500", shape="3,32,32", classes=100).models
    assert (row.name, row.parameters, row.representation) == ("resnet-18@500", 11_483_112, 500)


@pytest.mark.parametrize("name", ["cnn-5", "fedproto-cnn-1", "alexnet", "shufflenet-v2", "mlp-128-64"])
def test_what_is_measured_without_weights_is_what_the_network_has(name: str) -> None:
    shape = (1, 16, 16)
    model, row = build(name, shape, 5), measure(name, shape, 5)
    assert row.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert row.representation == representation_width(split(model, shape)["head"])
    cost = collecting_cost(
        {"model": model}, lambda net, batch, _: net.model(batch.x), {}, Task(shape, 5), torch.float32
    )
    assert row.flops == predicting_flops(model, shape) == cost.of([1])


def test_counting_changes_nothing() -> None:
    model = build("shufflenet-v2", (1, 16, 16), 5).train()
    before = {path: tensor.clone() for path, tensor in model.state_dict().items()}
    predicting_flops(model, (1, 16, 16))
    assert model.training
    assert all(torch.equal(tensor, before[path]) for path, tensor in model.state_dict().items())


def test_all_networks() -> None:
    found = overview()
    assert [row.name for row in found.models] == [*names(), *MLP_EXAMPLES]
    assert (found.shape, found.classes, found.unfit) == ((3, 32, 32), 10, {})


def test_networks_that_cannot_take_the_inputs() -> None:
    found = overview(shape="20", classes=3)
    assert [row.name for row in found.models] == list(MLP_EXAMPLES)
    assert list(found.unfit) == names()
    assert found.unfit["cnn-1"].startswith("CNN-1 takes images [channels, height, width], not inputs of shape [20]")
    # Asked for by name, it is a mistake to be told of.
    with pytest.raises(ModelError, match="CNN-1 takes images"):
        overview("mlp-64,cnn-1", shape="20")


def test_a_data_set_gives_shape_and_classes() -> None:
    found = overview("cnn-5,fedavg-cnn", data=tiny.NAME)
    assert (found.shape, found.classes) == ((1, 28, 28), 10)
    assert [row.parameters for row in found.models] == [525_258, 1_663_370]
    with pytest.raises(ConfigError, match="give --data, or --shape and --classes"):
        overview(data=tiny.NAME, classes=10)
    with pytest.raises(DataError, match="unknown data set 'cifar'"):
        overview(data="cifar")


def test_the_table() -> None:
    lines = printed(spec="resnet-18, cnn-5, cnn-5")
    assert lines[0].rstrip() == "For inputs of shape 3 x 32 x 32 and 10 classes"
    rows = [line.split() for line in lines if line.strip().startswith(("resnet", "cnn"))]
    assert rows == [
        ["resnet-18", "11,444,298", "512", "74.6", "M", "43.66"],
        ["cnn-5", "670,058", "500", "5.75", "M", "2.56"],
    ]


@pytest.mark.parametrize("shape", ["3,32,32", "20", "3,10000,10000"])
def test_the_table_fits_on_the_screen(shape: str) -> None:
    lines = printed(shape=shape, classes=1_000_000)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "…" not in text
    shown = " ".join(text.split())
    assert all(
        row.name in shown and f"{row.parameters:,}" in shown for row in overview(shape=shape, classes=10**6).models
    )
    assert ("Not for such inputs" in text) == (shape == "20")


@pytest.mark.parametrize("text", ["", "3,32,", "3x32x32", "a", "3,-1", "1.5", "1,2,3,4", "\u0663", "9" * 5000])
def test_a_shape_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"give up to three whole numbers with commas, as in 3,32,32"):
        parse_shape(text)


@pytest.mark.parametrize("text", ["0", "3,0,32", "3,32,10001"])
def test_a_shape_out_of_range(text: str) -> None:
    with pytest.raises(ConfigError, match="every number must be from 1 to 10000"):
        parse_shape(text)


# ---- on the command line --------------------------------------------------------------------------------------------


def test_the_command(potluck: tiny.Command) -> None:
    ran = potluck("models", "cnn-1..2", "--shape", "1,28,28", "--classes", 10)
    assert (ran.code, ran.err) == (0, "")
    assert "For inputs of shape 1 x 28 x 28 and 10 classes" in ran.out
    assert [line.split()[:2] for line in ran.out.splitlines() if "cnn-" in line] == [
        ["cnn-1", "2,044,758"],
        ["cnn-2", "1,526,342"],
    ]


def test_json(potluck: tiny.Command) -> None:
    ran = potluck("models", "--data", tiny.NAME, "--json")
    assert (ran.code, ran.err) == (0, "")
    said = json.loads(ran.out)
    assert (said["version"], said["shape"], said["classes"], said["unfit"]) == (1, [1, 28, 28], 10, {})
    (row,) = [row for row in said["models"] if row["name"] == "fedavg-cnn"]
    assert row == {
        "name": "fedavg-cnn", "parameters": 1_663_370, "representation": 512, "bytes": 6_653_480,
        "flops": 2 * (28 * 28 * 25 * 32 + 14 * 14 * 25 * 32 * 64 + 3136 * 512 + 5120),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cnn-9",), "unknown model 'cnn-9': did you mean 'cnn-"),
        (("cnn-1", "--shape", "3,8,8"), "CNN-1 cannot take images of shape [3, 8, 8]"),
        (("--shape", "3x32x32"), "--shape '3x32x32': give up to three whole numbers with commas"),
        (("--data", "cifar10"), "unknown data set 'cifar10'"),
        (("--data", "cifar-10"), "cifar-10-batches-bin"),
        (("--data", tiny.NAME, "--shape", "3"), "give --data, or --shape and --classes"),
    ],
)
def test_mistakes(potluck: tiny.Command, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    ran = potluck("models", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("potluck: ")
    assert ran.err.count("\n") == 1
    assert said in ran.err


@pytest.mark.parametrize("classes", [0, -1, 10**7, "ten"])
def test_classes_that_cannot_be(potluck: tiny.Command, classes: int | str) -> None:
    ran = potluck("models", "--classes", classes)
    assert (ran.code, ran.out) == (2, "")
    assert "--classes" in ran.err
