"""GPU kernels, run by the interpreter of their language on a CPU; on a GPU, themselves.

Only in float32: of products of bfloat16 the interpreter makes something else. On a GPU kernels of convolutions are
compared with PyTorch's operations before they are first used, in the type that they are used in.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

pytest.importorskip("triton", reason="there is no compiler for kernels")

from potluck.data.transform import Transform
from potluck.engines.stacked.operations import Operations, checks, mode
from potluck.engines.stacked.operations import entropy as entropy_operation
from potluck.engines.stacked.operations import linear as linear_operation
from potluck.engines.stacked.operations import normalization as normalization_operation
from potluck.engines.stacked.operations.kernels import (
    augmentation,
    blocks,
    convolution,
    descent,
    entropy,
    linear,
    normalization,
    pooling,
)
from potluck.engines.stacked.operations.shapes import Shape
from potluck.engines.stacked.operations.together import blocks as together_blocks
from potluck.engines.stacked.operations.together import convolution as together_convolution
from potluck.models import layers

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
    gated = torch.autograd.grad(
        torch.stack([F.relu(F.conv2d(*one, padding=padding)) for one in zip(x, weight, bias, strict=True)]),
        (x, weight, bias),
        slope,
    )
    with torch.no_grad():
        gate = convolution.convolve(x, weight, bias, padding, relu=True)
        by_weight, by_bias = convolution.weight_gradient(x, slope, kernel, padding, gate)
        by_x = convolution.input_gradient(slope, weight, padding, gate)
    for one, other in zip((gate, by_x, by_weight, by_bias), (expected.relu(), *gated), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


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


@pytest.mark.parametrize(
    ("clients", "samples", "channels", "outputs", "kernel", "padding"),
    [
        (2, 3, 3, 16, (5, 5), (0, 0)),
        (2, 3, 16, 32, (5, 5), (0, 0)),
        (1, 2, 1, 9, (3, 2), (0, 1)),
        (3, 2, 8, 17, (3, 3), (1, 1)),
        (2, 2, 20, 16, (4, 3), (2, 2)),
        (1, 1, 12, 10, (1, 1), (0, 0)),
    ],
)
def test_convolutions_that_are_pooled(
    clients: int, samples: int, channels: int, outputs: int, kernel: tuple[int, int], padding: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(blocks, "_PROGRAMS", 6)  # so that several programs share the windows
    x = numbers(clients, samples, channels, 9, 8).requires_grad_()
    weight, bias = numbers(clients, outputs, channels, *kernel).requires_grad_(), numbers(clients, outputs)
    bias.requires_grad_()
    each = zip(x, weight, bias, strict=True)
    expected = torch.stack([F.relu(F.max_pool2d(F.conv2d(*one, padding=padding), 2)) for one in each])
    slope = numbers(*expected.shape)
    by = torch.autograd.grad(expected, (x, weight, bias), slope)
    with torch.no_grad():
        found, which = blocks.convolve_and_pool(x, weight, bias, padding)
        by_weight, by_bias = blocks.pooled_weight_gradient(x, slope, which, kernel, padding)
        by_x = blocks.pooled_input_gradient(slope, which, weight, x.shape[2:], padding)
    assert set(which.flatten().tolist()) == {0, 1, 2, 3, 4}
    for one, other in zip((found, by_x, by_weight, by_bias), (expected, *by), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_the_largest_number_of_a_window_is_the_first_of_several() -> None:
    x, weight, bias = torch.ones(1, 1, 1, 4, 4), torch.ones(1, 9, 1, 1, 1), torch.zeros(1, 9)
    x[..., 2:, 2:] = torch.tensor([[0.0, torch.nan], [5.0, 1.0]])
    x[..., 2:, :2] = -1
    out, which = blocks.convolve_and_pool(x.to(DEVICE), weight.to(DEVICE), bias.to(DEVICE), (0, 0))
    assert which[0, 0, 0].tolist()[0] == [0, 0]
    assert which[0, 0, 0, 1, 0] == 4 and out[0, 0, 0, 1, 0] == 0
    assert which[0, 0, 0, 1, 1] != 4 and out[0, 0, 0, 1, 1].isnan()


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_cross_entropy(classes: int) -> None:
    logits = numbers(300, classes).mul(20).requires_grad_()
    label = torch.arange(300, device=DEVICE) % classes
    label[7] = -100
    assert entropy.entropy(numbers(2, classes), torch.tensor([classes, -1], device=DEVICE)).isnan().all()
    expected = F.cross_entropy(logits, label, reduction="none")
    slope = numbers(300)
    (by_logits,) = torch.autograd.grad(expected, logits, slope)
    with torch.no_grad():
        assert torch.allclose(entropy.entropy(logits, label), expected, rtol=1e-5, atol=1e-5)
        assert torch.allclose(entropy.entropy_gradient(logits, label, slope), by_logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("relu", [False, True])
def test_what_surrounds_the_products_of_linear_layers(relu: bool) -> None:
    out, slope = numbers(2, 70, 130), numbers(2, 70, 130).sin()
    bias = numbers(2, 133)[:, 1:131].requires_grad_()  # every client apart
    before = out.clone().requires_grad_()
    expected = before + bias.unsqueeze(1)
    expected = expected.relu() if relu else expected
    by_out, by_bias = torch.autograd.grad(expected, (before, bias), slope)
    with torch.no_grad():
        linear.shift(out, bias, relu=relu)
        gated, sums = linear.settle(slope, out if relu else None, summed=True)
        again, nothing = linear.settle(slope, out, summed=False)
    assert torch.allclose(out, expected) and torch.equal(gated, by_out) and sums is not None
    assert torch.allclose(sums, by_bias, rtol=1e-5, atol=1e-5)
    assert torch.equal(again, slope.masked_fill(out <= 0, 0)) and nothing is None


ALL = ("gamma", "beta")
NORMS = ("normalize", "normalize_gradient")


@pytest.mark.parametrize(
    ("channels", "edges", "last", "affine"),
    [
        (5, (5, 6), False, ALL), (5, (5, 6), True, ALL), (35, (2, 2), True, ALL), (3, (12, 11), False, ALL),
        (37, (), False, ALL), (4, (6,), False, ALL), (4, (6,), False, ()), (4, (), False, ("gamma",)),
        (2, (3, 2), True, ("beta",)),
    ],
)  # fmt: skip
def test_batch_norm(
    channels: int, edges: tuple[int, ...], last: bool, affine: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Beside PyTorch's operations in float64, and slopes of samples that do not count are slopes all the same."""
    monkeypatch.setattr(normalization, "_AT_ONCE", 64)
    monkeypatch.setattr(normalization, "_ALTOGETHER", 128)  # so that several programs share the rows
    x, slope = 3 + numbers(3, 6, channels, *edges), numbers(3, 6, channels, *edges).sin()
    both = numbers(3, 2 * channels + 1)  # every client apart
    gamma = both[:, :channels] if "gamma" in affine else None
    beta = both[:, channels:-1] if "beta" in affine else None
    weight = torch.tensor([[1.0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]], device=DEVICE)
    if last:
        x = x.movedim(2, -1).contiguous().movedim(-1, 2)
    found = normalization.normalize(x, weight, gamma, beta, eps=0.01)
    slopes = normalization.normalize_gradient(slope, x, weight, gamma, found[1], found[3])
    exact = {
        name: one.double().requires_grad_()
        for name, one in {"x": x, "gamma": gamma, "beta": beta}.items() if one is not None
    }  # fmt: skip
    given = exact["x"], weight.double(), exact.get("gamma"), exact.get("beta")
    expected = normalization_operation.normalized(*given, eps=0.01)
    by = dict(zip(exact, torch.autograd.grad(expected[0], list(exact.values()), slope.double()), strict=True))
    # But for the last client, none of whose samples count: its step is discarded.
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one[:2].double(), other[:2], rtol=1e-4, atol=1e-4)
    for name, one in zip(("x", "gamma", "beta"), slopes, strict=True):
        assert name not in by or torch.allclose(one[:2].double(), by[name][:2], rtol=1e-4, atol=1e-4)
    assert all(torch.isfinite(one).all() for one in (*found, *slopes))


def test_batch_norm_of_bfloat16() -> None:
    x, slope = (3 + numbers(2, 9, 4, 5, 5)).bfloat16(), numbers(2, 9, 4, 5, 5).sin().bfloat16()
    gamma, beta, weight = numbers(2, 4), numbers(2, 4).cos(), torch.ones(9, device=DEVICE).expand(2, -1)
    found = normalization.normalize(x, weight, gamma, beta, eps=0.01)
    slopes = normalization.normalize_gradient(slope, x, weight, gamma, found[1], found[3])
    exact = normalization.normalize(x.float(), weight, gamma, beta, eps=0.01)
    steep = normalization.normalize_gradient(slope.float(), x.float(), weight, gamma, found[1], found[3])
    assert found[0].dtype == slopes[0].dtype == torch.bfloat16
    for one, other in zip((*found, *slopes), (*exact, *steep), strict=True):
        assert torch.allclose(one.float(), other, rtol=0.01, atol=0.01)


def test_gradients_of_batch_norm_where_clients_have_it_in_common() -> None:
    x, weight, slope = numbers(1, 6, 4, 3), torch.ones(1, 6, device=DEVICE), numbers(2, 6, 4, 3).sin()
    _, mean, _, scale = normalization.normalize(x, weight, None, None, eps=0.01)
    both, weights, means, scales = (one.expand(2, *one.shape[1:]) for one in (x, weight, mean, scale))
    found = normalization.normalize_gradient(slope, both, weights, None, means, scales)
    for client in range(2):
        alone = normalization.normalize_gradient(slope[client : client + 1], x, weight, None, mean, scale)
        assert all(torch.equal(one[client], other[0]) for one, other in zip(found, alone, strict=True))


@pytest.mark.parametrize("common", [False, True], ids=["of each", "in common"])
def test_batch_norm_of_all_clients_at_once(common: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = 3 + numbers(2, 5, 4, 3, 2), torch.tensor([[1.0] * 5, [1.0] * 3 + [0.0] * 2], device=DEVICE)
    gamma, beta = numbers(2, 4), numbers(2, 4).cos()
    dims = (0, 0, None, None) if common else (0, 0, 0, 0)
    given = (x, weight, gamma[0], beta[0]) if common else (x, weight, gamma, beta)

    def loss(x: Tensor, weight: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        out, mean, *_ = normalization_operation.BatchNorm.apply(x, weight, gamma, beta, 0.01)  # type: ignore[no-untyped-call]
        return (out.sin() * weight.view(-1, 1, 1, 1)).sum(), mean

    step = torch.func.vmap(torch.func.grad_and_value(loss, (0, 2, 3), has_aux=True), dims)
    monkeypatch.setattr(normalization_operation, "usable", lambda *_: None)
    expected = step(*given)
    kernels = kernels_of(normalization, None)
    monkeypatch.setattr(normalization_operation, "usable", lambda *_: kernels)
    monkeypatch.setattr(normalization_operation, "compiled", lambda: kernels)
    used: list[str] = []

    def noted(name: str) -> Any:
        def work(*given: Any, **more: Any) -> Any:
            used.append(name)
            return getattr(normalization, name)(*given, **more)

        return work

    for name in NORMS:
        setattr(kernels, name, noted(name))
    checks.forget()
    step(*given)
    used.clear()
    found = step(*given)
    assert used == list(NORMS)  # compared before
    for one, other in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 0.01), (0.0, 0.0)])
@pytest.mark.parametrize("limit", [3.0, None])
def test_a_step_of_sgd(momentum: float, decay: float, limit: float | None) -> None:
    rows, gradients = numbers(3, 5008), numbers(3, 2, 5000)
    weights, active = rows[:, :5000], torch.tensor([True, False, True], device=DEVICE)
    velocity = torch.zeros_like(rows)[:, :5000] if momentum else None
    rate = torch.tensor(0.1, dtype=torch.float64, device=DEVICE)
    expected = [torch.nn.Parameter(row.clone()) for row in weights]
    optimizer = torch.optim.SGD(expected, lr=0.1, momentum=momentum, weight_decay=decay)
    for step in range(2):
        gradient = gradients[:, step]
        norm = None if limit is None else gradient.norm(dim=1)
        descent.descend(
            weights, velocity, gradient, norm, rate, active,
            limit=limit or 0.0, epsilon=1e-6, decay=decay, momentum=momentum,
        )  # fmt: skip
        for parameter, slope, works in zip(expected, gradient, active.tolist(), strict=True):
            parameter.grad = slope.clone() if works else None
            if limit is not None and works:
                torch.nn.utils.clip_grad_norm_([parameter], limit)
        optimizer.step()
    assert torch.allclose(weights, torch.stack(list(expected)), rtol=1e-5, atol=1e-6)
    assert torch.equal(rows[:, 5000:], numbers(3, 5008)[:, 5000:])


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


def kernels_of(module: ModuleType, broken: str | None) -> SimpleNamespace:
    """Kernels, of which one gives one wrong number."""
    kernels = SimpleNamespace(**vars(module))
    if broken is not None:
        right = getattr(kernels, broken)

        def wrong(*given: Any, **more: Any) -> Any:
            result = right(*given, **more)
            first = result[0] if isinstance(result, tuple) else result
            first[(0,) * first.ndim] += 100
            return result

        setattr(kernels, broken, wrong)
    return kernels


@pytest.mark.parametrize("broken", [None, *NORMS])
@pytest.mark.parametrize("channels", [3, 40])
@pytest.mark.parametrize(("last", "affine"), [(False, True), (True, False)])
def test_kernels_of_batch_norm_are_compared_as_well(
    broken: str | None, channels: int, last: bool, affine: bool, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    kernels = kernels_of(normalization, broken)
    monkeypatch.setattr(normalization_operation, "usable", lambda *_: kernels)
    monkeypatch.setattr(normalization_operation, "compiled", lambda: kernels)
    checks.forget()
    x = numbers(2, 3, channels, 2, 2)
    x = x.movedim(2, -1).contiguous().movedim(-1, 2) if last else x
    gamma = numbers(2, channels) if affine else None
    found = [normalization_operation._kernels(what, x, gamma) for what in NORMS]
    assert found == [None if what == broken else kernels for what in NORMS]
    assert len(caplog.records) == (broken is not None)


BLOCKS = ("convolve_and_pool", "pooled_input_gradient", "pooled_weight_gradient")
CONVOLUTIONS = ("convolve", "input_gradient", "weight_gradient")


@pytest.mark.parametrize("broken", [None, *BLOCKS])
def test_kernels_of_blocks_are_compared_as_well(
    broken: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernels = kernels_of(blocks, broken)
    monkeypatch.setattr(together_blocks, "usable", lambda *_: kernels)
    monkeypatch.setattr(together_blocks, "compiled", lambda: kernels)
    checks.forget()
    each = [
        together_blocks._kernels(
            what, (numbers(2, 3, 2, 6, 7),), torch.Size((2, 6, 7)), torch.Size((9, 2, 3, 3)), (0, 1)
        )
        for what in BLOCKS
    ]
    checks.forget()
    assert each == [None if what == broken else kernels for what in BLOCKS]
    assert [record.levelname for record in caplog.records] == ([] if broken is None else ["WARNING"])


@pytest.mark.parametrize("broken", [None, *CONVOLUTIONS])
@pytest.mark.parametrize("relu", [False, True])
def test_kernels_are_compared_with_pytorch_before_they_are_used(
    broken: str | None, relu: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernels = kernels_of(convolution, broken)
    monkeypatch.setattr(together_convolution, "usable", lambda *_: kernels)
    monkeypatch.setattr(together_convolution, "compiled", lambda: kernels)
    checks.forget()
    x, weight = numbers(2, 3, 2, 6, 5), numbers(2, 4, 2, 3, 3)
    given = x.shape[2:], weight.shape[1:], Shape((1, 1), (0, 1))
    each = [together_convolution._fitting(what, (x, weight, None), *given, relu=relu) for what in CONVOLUTIONS]
    checks.forget()
    many = torch.empty(2, 1 << 24, 2, 6, 5, device="meta")
    assert together_convolution._fitting("convolve", (many, weight, None), *given, relu=relu) is None
    assert each == [None if what == broken else kernels for what in CONVOLUTIONS]
    assert [record.levelname for record in caplog.records] == ([] if broken is None else ["WARNING"])


class Small(nn.Module):
    """All operations that have kernels for a step."""

    def __init__(self) -> None:
        super().__init__()
        self.few, self.many, self.out = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 9, 3, padding=1), nn.Linear(108, 5)

    def forward(self, x: Tensor) -> Tensor:
        return layers.activated(self.out, layers.pooled(self.many, layers.activated(self.few, x)).flatten(1))


@pytest.mark.parametrize("common", [False, True], ids=["filters of each", "filters in common"])
def test_a_whole_step(common: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through ``vmap``, with padding, of images with odd edges."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    network = Small().to(DEVICE)
    weights = {name: 0.3 * numbers(2, *parameter.shape) for name, parameter in network.named_parameters()}
    shared = {name: one[0] for name, one in weights.items() if common and name != "out.weight"}
    own = {name: one for name, one in weights.items() if name not in shared}
    x, labels = numbers(2, 4, 2, 7, 9), (torch.arange(8, device=DEVICE) % 5).view(2, 4)
    real = torch.tensor([[1.0, 1, 0, 0], [1, 1, 1, 0]], device=DEVICE)

    def step(own: dict[str, Tensor], x: Tensor, labels: Tensor, real: Tensor) -> dict[str, Tensor]:
        def loss(learning: dict[str, Tensor]) -> Tensor:
            scores = torch.func.functional_call(network, {**shared, **learning}, x)
            losses: Tensor = F.cross_entropy(scores, labels, reduction="none") * real
            return losses.sum()

        return torch.func.grad(loss)(own)  # type: ignore[no-any-return]

    expected = torch.func.vmap(step)(own, x, labels, real)
    kernels = SimpleNamespace(**{
        name: one for module in (blocks, convolution, entropy, linear) for name, one in vars(module).items()
    })  # fmt: skip
    monkeypatch.setattr(mode, "fits", lambda *_: True)
    for module in (together_convolution, together_blocks, entropy_operation, linear_operation):
        monkeypatch.setattr(module, "usable", lambda *tensors: kernels if tensors[0].dtype == torch.float32 else None)
    monkeypatch.setattr(together_convolution, "compiled", lambda: kernels)
    monkeypatch.setattr(together_blocks, "compiled", lambda: kernels)
    with Operations():
        found = torch.func.vmap(step)(own, x, labels, real)
    for name, one in expected.items():
        assert torch.allclose(found[name], one, rtol=1e-4, atol=1e-4), name
