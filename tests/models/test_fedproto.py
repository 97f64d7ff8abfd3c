"""FedProto's networks: counts by arithmetic, literal forward passes, and where the prototypes are taken."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models import split
from potluck.models.fedproto import DroppedLinear, FedProtoCNN, FedProtoResNet

from .counting import Layers, linear, multiply_adds, parameters, unsettle


@pytest.mark.parametrize(("number", "channels", "count"), [(1, 18, 19_738), (2, 20, 21_840), (3, 22, 23_942)])
def test_parameters_of_the_networks_for_mnist(number: int, channels: int, count: int) -> None:
    # The release: 320 inputs of the first linear layer for 20 channels, 4x4 pixels each.
    expected = (25 * 10 + 10) + (250 * channels + channels) + linear(320 // 20 * channels, 50) + linear(50, 10)
    assert parameters(FedProtoCNN(number, (1, 28, 28), 10)) == expected == count


def literal(model: nn.Module, x: Tensor) -> Tensor:
    layers = Layers(model)
    x = F.relu(F.max_pool2d(layers.convolution(x), 2))
    x = F.relu(F.max_pool2d(layers.convolution(x), 2))
    x = layers.linear(F.relu(layers.linear(x.flatten(1))))
    assert layers.used_up()
    return x


def test_forward_pass() -> None:
    model = FedProtoCNN(3, (1, 28, 28), 10).double().eval()
    x = torch.randn(2, 1, 28, 28, dtype=torch.float64)
    torch.testing.assert_close(model(x), literal(model, x))


def test_dropout_of_whole_channels_after_the_second_convolution() -> None:
    body = FedProtoCNN(3, (1, 28, 28), 10).train().body
    x = torch.ones(64, 1, 28, 28)
    dropped = body[:5](x)
    silent = (dropped == 0).flatten(2).all(2)
    assert silent.sum() == (dropped == 0).any(3).any(2).sum()
    assert 0.4 < float(silent.float().mean()) < 0.6


def test_prototypes_are_taken_before_the_last_dropout() -> None:
    parts = split(FedProtoCNN(2, (1, 28, 28), 10), (1, 28, 28))
    head = parts["head"].train()
    assert isinstance(head, DroppedLinear)
    assert list(head.state_dict()) == ["weight", "bias"]  # a plain linear layer can take its place
    representation = torch.ones(200, 50)
    assert not torch.equal(head(representation), head(representation))
    head.eval()
    torch.testing.assert_close(head(representation), representation @ head.weight.T + head.bias)
    with torch.no_grad():
        head.weight.fill_(1)
        head.bias.zero_()
    kept = head.train()(representation)[:, 0].detach() / 2  # what is kept counts twice
    assert set(kept.tolist()) <= set(map(float, range(51)))
    assert float(kept.mean()) == pytest.approx(25, abs=1.5)


@pytest.mark.parametrize("number", [1, 2])
def test_parameters_of_the_networks_for_cifar(number: int) -> None:
    # ResNet-18 for ImageNet has 11,689,512, of which 513,000 are its last layer.
    assert parameters(FedProtoResNet(number, (3, 32, 32), 10)) == 11_689_512 - 513_000 + linear(512, 10) == 11_181_642


def literal_resnet(model: nn.Module, x: Tensor, strides: tuple[int, int]) -> Tensor:
    layers = Layers(model)
    x = F.max_pool2d(F.relu(layers.norm(layers.convolution(x, strides[0], 3))), 3, strides[1], 1)
    for first in (1, 2, 2, 2):
        for stride in (first, 1):
            y = F.relu(layers.norm(layers.convolution(x, stride, 1)))
            y = layers.norm(layers.convolution(y, 1, 1))
            x = F.relu(y + (x if stride == 1 else layers.norm(layers.convolution(x, 2))))
    assert x.shape[2:] == (1, 1)  # so that the prototype, which the release takes here, is the pooled vector
    x = layers.linear(x.flatten(1))
    assert layers.used_up()
    return x


@pytest.mark.parametrize(("number", "strides"), [(1, (1, 4)), (2, (2, 2))])
def test_forward_pass_of_the_networks_for_cifar(number: int, strides: tuple[int, int]) -> None:
    model = unsettle(FedProtoResNet(number, (3, 32, 32), 10))
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(model(x), literal_resnet(model, x, strides))


def test_only_the_first_convolution_costs_more() -> None:
    dense, usual = (multiply_adds(FedProtoResNet(number, (3, 32, 32), 10), 3, 32, 32) for number in (1, 2))
    assert dense - usual == 7 * 7 * 3 * 64 * (32 * 32 - 16 * 16)


def test_what_does_not_exist() -> None:
    with pytest.raises(ModelError, match="no FedProto-CNN-4"):
        FedProtoCNN(4, (1, 28, 28), 10)
    with pytest.raises(ModelError, match="no FedProto-ResNet-3"):
        FedProtoResNet(3, (3, 32, 32), 10)
    with pytest.raises(ModelError, match=r"FedProto-CNN-1 cannot take .* 16x16 pixels"):
        FedProtoCNN(1, (1, 15, 28), 10)
    with pytest.raises(ModelError, match="FedProto-ResNet-1 takes images"):
        FedProtoResNet(1, (20,), 10)
