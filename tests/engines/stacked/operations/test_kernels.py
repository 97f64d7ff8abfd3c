"""GPU kernels, run by the interpreter of their language on a CPU; on a GPU, themselves.

Only in float32: of products of bfloat16 the interpreter makes something else. On a GPU each kernel is compared with
PyTorch's operation before it is first used, in the type that it is used in.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton", reason="there is no compiler for kernels")

from potluck.data.transform import Transform
from potluck.engines.stacked.operations import stacked
from potluck.engines.stacked.operations.convolution import Shape
from potluck.engines.stacked.operations.kernels import augmentation, convolution, pooling

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE)


@pytest.mark.parametrize(
    ("clients", "samples", "channels", "outputs", "kernel", "padding"),
    [
        (2, 3, 3, 16, (5, 5), (0, 0)),
        (2, 3, 8, 3, (3, 3), (1, 1)),
        (1, 2, 4, 20, (3, 2), (0, 1)),
        (3, 2, 5, 17, (3, 3), (2, 2)),
        (2, 1, 1, 1, (1, 1), (0, 0)),
        (1, 2, 13, 5, (3, 3), (1, 0)),
        (2, 3, 16, 32, (5, 5), (0, 0)),
        (2, 2, 16, 3, (3, 5), (1, 2)),
        (2, 1, 9, 4, (2, 2), (0, 1)),
        (1, 2, 8, 8, (5, 5), (2, 2)),
    ],
)
@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_convolutions(
    clients: int, samples: int, channels: int, outputs: int, kernel: tuple[int, int], padding: tuple[int, int],
    last: bool, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(convolution, "_PROGRAMS", 6)  # so that several programs share the pixels
    x = numbers(clients, samples, channels, 9, 8).requires_grad_()
    # As it lies in a row of memory: every client apart.
    weight = numbers(clients, outputs * channels * kernel[0] * kernel[1] + 3)[:, :-3]
    weight = weight.view(clients, outputs, channels, *kernel).detach().requires_grad_()
    bias = numbers(clients, outputs).requires_grad_()
    each = zip(x, weight, bias, strict=True)
    expected = torch.stack([F.conv2d(*one, padding=padding) for one in each])
    slope = numbers(*expected.shape)
    by = torch.autograd.grad(expected, (x, weight, bias), slope)
    if last:
        x, slope = (tensor.movedim(2, -1).contiguous().movedim(-1, 2) for tensor in (x, slope))
    with torch.no_grad():
        found = convolution.convolve(x, weight, bias, padding)
        unbiased = convolution.convolve(x, weight, None, padding)
        by_weight, by_bias = convolution.weight_gradient(x, slope, kernel, padding)
        by_x = convolution.input_gradient(slope, weight, padding)
    for one, other in zip((found, by_x, by_weight, by_bias), (expected, *by), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)
    assert torch.allclose(unbiased + bias.view(clients, 1, outputs, 1, 1), expected, rtol=1e-4, atol=1e-4)


POOLED = [((3, 2, 7, 8), (2, 2)), ((2, 3, 9, 9), (3, 3)), ((2, 2, 4, 6), (2, 3)), ((2, 17, 5, 6), (2, 2))]


@pytest.mark.parametrize(("shape", "window"), POOLED)
@pytest.mark.parametrize("long", [False, True])
def test_pooling(shape: tuple[int, ...], window: tuple[int, int], long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if long:
        monkeypatch.setattr(pooling, "_is_long", lambda _: True)
    x = numbers(*shape).mul(2).round()  # many are equal: the first of them counts
    x[0, 0, 1, 1] = torch.nan
    x.requires_grad_()
    expected = F.max_pool2d(x, window)
    slope = numbers(*expected.shape)
    (by_x,) = torch.autograd.grad(expected, x, slope)
    with torch.no_grad():
        assert torch.allclose(pooling.pool(x, window), expected, equal_nan=True)
        assert torch.equal(pooling.pool_gradient(x, slope, window), by_x)


def test_augmentation_is_the_same_to_the_bit() -> None:
    transform = Transform((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "release")
    source = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (9, 3, 32, 32), dtype=torch.uint8, generator=source).to(DEVICE)
    rows = torch.randint(0, 9, (12,), generator=source).to(DEVICE)
    keys = (torch.arange(12) * 7919).to(DEVICE)
    constants = transform.constants(torch.float32, DEVICE)
    assert constants is not None
    found = augmentation.release(x, rows, transform.plan(keys, (3, 32, 32)), constants)
    assert torch.equal(found, transform.augmented(x[rows], keys, torch.float32))


@pytest.mark.parametrize("broken", [None, "convolve", "input_gradient", "weight_gradient"])
def test_kernels_are_compared_with_pytorch_before_they_are_used(
    broken: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernels = SimpleNamespace(
        convolve=convolution.convolve, input_gradient=convolution.input_gradient,
        weight_gradient=convolution.weight_gradient,
    )  # fmt: skip
    if broken is not None:
        right = getattr(kernels, broken)

        def wrong(*given: Any) -> Any:
            result = right(*given)
            first = result[0] if isinstance(result, tuple) else result
            first[(0,) * first.ndim] += 100
            return result

        setattr(kernels, broken, wrong)
    monkeypatch.setattr(stacked, "usable", lambda _: kernels)
    monkeypatch.setattr(stacked, "compiled", lambda: kernels)
    stacked._right.cache_clear()
    x, weight = numbers(2, 3, 2, 6, 5), numbers(2, 4, 2, 3, 3)
    fitting = stacked._fitting(x, x.shape[2:], weight.shape[1:], Shape((1, 1), (0, 1)))
    stacked._right.cache_clear()
    many = torch.empty(2, 1 << 24, 2, 6, 5, device="meta")
    assert stacked._fitting(many, x.shape[2:], weight.shape[1:], Shape((1, 1), (0, 1))) is None
    assert fitting is (kernels if broken is None else None)
    assert [record.levelname for record in caplog.records] == ([] if broken is None else ["WARNING"])
