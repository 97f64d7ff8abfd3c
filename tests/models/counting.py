"""Weights and multiply-adds of layers, by arithmetic, and what a network really has."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def parameters(model: nn.Module) -> int:
    """How many weights a network has."""
    return sum(parameter.numel() for parameter in model.parameters())


def convolution(kernel: int, channels: int, filters: int) -> int:
    """Weights of a convolution without bias."""
    return kernel * kernel * channels * filters


def normalised(kernel: int, channels: int, filters: int) -> int:
    """Weights of a convolution without bias and of the batch normalisation after it, two per filter."""
    return convolution(kernel, channels, filters) + 2 * filters


def linear(inputs: int, outputs: int) -> int:
    """Weights of a linear layer with bias."""
    return inputs * outputs + outputs


def multiply_adds(model: nn.Module, *shape: int) -> int:
    """Multiply-adds of one sample, from the shapes that the layers really give; nothing is computed."""
    total = 0

    def count(layer: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        assert isinstance(layer, nn.Linear | nn.Conv2d)
        total += output.numel() * layer.weight[0].numel()

    model = model.to("meta").eval()
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer.register_forward_hook(count)
    model(torch.empty(1, *shape, device="meta"))
    return total


def unsettle(model: nn.Module) -> nn.Module:
    """Give batch normalisation statistics and weights that matter, in float64 and evaluation."""
    model = model.double().eval()
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.5, 1.5, generator=generator)
            for tensor in (module.bias.data, module.running_mean):
                tensor.uniform_(-0.5, 0.5, generator=generator)
    return model


class Layers:
    """The layers of one kind after another, for a forward pass that is written out."""

    def __init__(self, model: nn.Module) -> None:
        self._convolutions = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
        self._norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
        self._linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]

    def convolution(self, x: Tensor, stride: int = 1, padding: int = 0, groups: int = 1) -> Tensor:
        """The next convolution, with settings of its own."""
        layer = self._convolutions.pop(0)
        return nn.functional.conv2d(x, layer.weight, layer.bias, stride, padding, groups=groups)

    def norm(self, x: Tensor, eps: float = 1e-5) -> Tensor:
        """The next batch normalisation, as a formula."""
        layer = self._norms.pop(0)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        mean, scale = layer.running_mean, layer.weight / (layer.running_var + eps).sqrt()
        return (x - mean[:, None, None]) * scale[:, None, None] + layer.bias[:, None, None]

    def linear(self, x: Tensor) -> Tensor:
        """The next linear layer."""
        layer = self._linear.pop(0)
        return x @ layer.weight.T + layer.bias

    def used_up(self) -> bool:
        """Whether every layer has been used."""
        return not (self._convolutions or self._norms or self._linear)
