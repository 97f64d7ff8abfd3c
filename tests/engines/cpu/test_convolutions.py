"""Convolutions to and from few channels equal PyTorch's own, and so do their gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.engines.cpu import ForCPU

BY_BLOCKS = "_ConvolutionBackward"


def made(of: int, to: int, kernel: tuple[int, int], size: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(of + 10 * to)
    x, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=generator)
        for shape in ((3, of, *size), (to, of, *kernel), (to,))
    )
    x = x.contiguous(memory_format=torch.channels_last)
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()


@pytest.mark.parametrize(
    ("of", "to", "kernel", "padding", "size"),
    [
        (3, 16, (5, 5), 0, (32, 32)),
        (8, 3, (3, 3), 1, (32, 32)),
        (3, 8, (3, 3), 1, (32, 32)),
        (7, 12, (5, 3), (2, 0), (10, 8)),
        (3, 3, (3, 3), (1, 1), (12, 8)),
        (1, 4, (3, 5), (2, 0), (14, 6)),
        (2, 5, (1, 1), 0, (4, 4)),
        (6, 1, (2, 4), (1, 2), (7, 5)),
    ],
)
def test_equal_to_pytorchs_own(
    of: int, to: int, kernel: tuple[int, int], padding: int | tuple[int, int], size: tuple[int, int]
) -> None:
    inputs = made(of, to, kernel, size)
    expected = F.conv2d(*inputs, padding=padding)
    with ForCPU():
        result = F.conv2d(*inputs, 1, padding)
    assert torch.allclose(result, expected, rtol=0, atol=1e-12)
    direction = torch.randn_like(expected)
    pairs = zip(
        torch.autograd.grad(result, inputs, direction), torch.autograd.grad(expected, inputs, direction), strict=True
    )
    for gradient, known in pairs:
        assert torch.allclose(gradient, known, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("of", "to"), [(3, 16), (8, 3), (3, 8), (6, 20)])
def test_images_of_even_size_go_by_blocks(of: int, to: int) -> None:
    with ForCPU():
        result = torch.nn.Conv2d(of, to, 3, padding=1, dtype=torch.float64)(made(of, to, (3, 3), (8, 8))[0])
    assert result.grad_fn is not None
    assert result.grad_fn.name() == BY_BLOCKS
    assert result.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "settings",
    [{"stride": 2}, {"dilation": 2}, {"padding": "same"}, {"padding_mode": "circular", "padding": 1}, {"groups": 3}],
)
def test_any_other_convolution_is_left_to_pytorch(settings: dict[str, object]) -> None:
    layer = torch.nn.Conv2d(3, 6, 3, dtype=torch.float64, **settings)  # type: ignore[arg-type]
    x = made(3, 6, (3, 3), (8, 8))[0]
    expected = layer(x)
    with ForCPU():
        result = layer(x)
    assert torch.equal(result, expected) or "padding_mode" in settings
    assert torch.allclose(result, expected, rtol=0, atol=1e-12)


def test_without_a_bias_and_frozen() -> None:
    x, weight, _ = made(8, 3, (3, 3), (6, 6))
    weight = weight.detach()
    with ForCPU():
        result = F.conv2d(x, weight, None, 1, 1)
    expected = F.conv2d(x, weight, None, 1, 1)
    assert torch.allclose(result, expected, rtol=0, atol=1e-12)
    one, other = (torch.autograd.grad(y.square().sum(), x)[0] for y in (result, expected))
    assert torch.allclose(one, other, rtol=0, atol=1e-10)


def test_gradients_of_gradients() -> None:
    inputs = made(2, 3, (3, 3), (4, 4))

    def by_blocks(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        with ForCPU():
            return F.conv2d(x.contiguous(memory_format=torch.channels_last), weight, bias, 1, 1)

    assert torch.autograd.gradcheck(by_blocks, inputs)
    assert torch.autograd.gradgradcheck(by_blocks, inputs)


def test_in_bfloat16_as_autocast_says() -> None:
    x, weight, bias = (tensor.detach().float().requires_grad_() for tensor in made(3, 16, (5, 5), (8, 8)))
    with torch.autocast("cpu", torch.bfloat16), ForCPU():
        result = F.conv2d(x, weight, bias)
    assert result.dtype == torch.bfloat16
    gradient = torch.autograd.grad(result.float().sum(), x)[0]
    known = torch.autograd.grad(F.conv2d(x, weight, bias).sum(), x)[0]
    assert gradient.dtype == torch.float32
    assert torch.allclose(gradient, known, rtol=0.05, atol=0.1)


def test_arguments_by_name() -> None:
    x, weight, bias = made(8, 3, (3, 3), (8, 8))
    with ForCPU():
        result = F.conv2d(input=x, weight=weight, bias=bias, padding=1)
    assert BY_BLOCKS in str(result.grad_fn)
    assert torch.allclose(result, F.conv2d(x, weight, bias, padding=1))


def test_a_gradient_that_begins_at_an_odd_place_in_memory() -> None:
    x, weight, bias = (tensor.detach().bfloat16().requires_grad_() for tensor in made(4, 1, (3, 3), (8, 8)))
    inputs = x, weight, bias
    with ForCPU():
        result = F.conv2d(*inputs, padding=1)
    one = torch.zeros(1, dtype=torch.bfloat16)
    gradients = torch.autograd.grad(torch.cat((one, result.flatten())).float().square().sum(), inputs)
    known = torch.autograd.grad(F.conv2d(*inputs, padding=1).float().square().sum(), inputs)
    for gradient, other in zip(gradients, known, strict=True):
        assert torch.allclose(gradient.float(), other.float(), rtol=0.05, atol=0.5)
