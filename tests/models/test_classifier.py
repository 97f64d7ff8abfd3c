"""The last two layers that make unlike networks exchangeable."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.models import build, split
from potluck.models.classifier import Classifier

FEDCLASSAVG = ("resnet-18", "shufflenet-v2", "googlenet", "alexnet")


def test_body_ends_in_a_relu_and_head_is_one_linear_layer() -> None:
    torch.manual_seed(0)
    trunk = nn.Linear(5, 7)
    model = Classifier(trunk, 7, classes=3, width=4)
    x = torch.randn(6, 5)
    between, last = model.body[1], model.head
    assert isinstance(between, nn.Linear)
    representation = (trunk(x) @ between.weight.T + between.bias).clamp(min=0)
    torch.testing.assert_close(model.body(x), representation)
    torch.testing.assert_close(model(x), representation @ last.weight.T + last.bias)
    assert (model.body(x) == 0).any()


@pytest.mark.parametrize("name", FEDCLASSAVG)
@pytest.mark.parametrize(("width", "suffix"), [(512, ""), (500, "@500")])
def test_the_four_networks_of_fedclassavg_have_heads_of_one_kind(name: str, width: int, suffix: str) -> None:
    parts = split(build(name + suffix, (1, 16, 16), 10), (1, 16, 16))
    assert {path: tuple(tensor.shape) for path, tensor in parts["head"].state_dict().items()} == {
        "weight": (10, width),
        "bias": (10,),
    }
    assert 10 * width + 10 == {512: 5_130, 500: 5_010}[width]  # what FedClassAvg sends, and FedGH
    representation = parts["body"].eval()(torch.randn(4, 1, 16, 16))
    assert representation.shape == (4, width)
    assert representation.min() == 0
