"""Operations of stacked clients against PyTorch's own, one client at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck.engines.stacked.operations import Operations, entropy, mode
from potluck.models import layers

CLIENTS = 3
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "padded": {"padding": 1},
    "padded by more than the filter": {"padding": (3, 0)},
    "with strides": {"stride": (2, 1), "padding": (0, 2)},
    "dilated": {"dilation": 2},
    "in groups": {"groups": 2},
    "same": {"padding": "same"},
}


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def gradients(function: Callable[..., Tensor], *given: Tensor) -> tuple[Tensor, ...]:
    """Gradients of a made-up loss by all that is given."""
    return torch.func.grad(lambda *tensors: function(*tensors).sin().sum(), tuple(range(len(given))))(*given)  # type: ignore[no-any-return]


def assert_stacks(function: Callable[..., Tensor], *given: Tensor, dims: tuple[int | None, ...] | None = None) -> None:
    """Under vmap, with our operations, everything is as it is client by client, with PyTorch's."""

    def ours(*tensors: Tensor) -> tuple[Tensor, ...]:
        with Operations():
            return function(*tensors), *gradients(function, *tensors)

    dims = dims or (0,) * len(given)
    found = torch.func.vmap(ours, in_dims=dims)(*given)
    for client in range(CLIENTS):
        own = [one if dim is None else one.select(dim, client) for one, dim in zip(given, dims, strict=True)]
        for one, other in zip(found, (function(*own), *gradients(function, *own)), strict=True):
            assert torch.allclose(one[client], other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("biased", [True, False])
def test_convolutions(kind: str, biased: bool) -> None:
    torch.manual_seed(0)
    settings = CONVOLUTIONS[kind]
    x, weight = numbers(CLIENTS, 4, 2, 8, 7), numbers(CLIENTS, 6, 2 // settings.get("groups", 1), 3, 3)
    if biased:
        assert_stacks(lambda *given: F.conv2d(*given, **settings), x, weight, numbers(CLIENTS, 6))
    else:
        assert_stacks(lambda *given: F.conv2d(*given, **settings), x, weight)


def test_what_clients_have_in_common_or_in_another_dimension() -> None:
    torch.manual_seed(0)
    assert_stacks(F.conv2d, numbers(4, 2, 8, 7), numbers(CLIENTS, 6, 2, 3, 3), dims=(None, 0))
    assert_stacks(F.conv2d, numbers(4, CLIENTS, 2, 8, 7), numbers(6, 2, 3, 3), dims=(1, None))


@pytest.mark.parametrize("window", [2, (3, 2)])
def test_pooling(window: int | tuple[int, int]) -> None:
    x = torch.randint(
        0, 4, (CLIENTS, 4, 2, 7, 9), generator=torch.Generator().manual_seed(0)
    ).double()  # many are equal
    assert_stacks(lambda one: F.max_pool2d(one, window), x)
    assert_stacks(lambda one: torch.max_pool2d(one, window), x)
    assert_stacks(lambda one: F.max_pool2d(one, 3, stride=1, padding=1), x)
    assert_stacks(lambda one: F.max_pool2d(one, 2, return_indices=True)[0], x)


LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "convolution": (nn.Conv2d(2, 6, 3, padding=1), (4, 2, 8, 7)),
    "convolution without bias": (nn.Conv2d(2, 6, 3, bias=False), (4, 2, 8, 7)),
    "mirrored": (nn.Conv2d(2, 6, 3, padding=1, padding_mode="reflect"), (4, 2, 8, 7)),
    "same": (nn.Conv2d(2, 6, 3, padding="same"), (4, 2, 8, 7)),
    "linear": (nn.Linear(5, 6), (4, 5)),
    "linear without bias": (nn.Linear(5, 6, bias=False), (4, 5)),
    "linear on rows of rows": (nn.Linear(5, 6), (4, 3, 5)),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("step", [layers.activated, layers.pooled, None], ids=["activated", "pooled", "plain"])
@pytest.mark.parametrize("kernels", [False, True], ids=["in its parts", "as one"])
def test_layers(kind: str, step: Any, kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer, shape = LAYERS[kind]
    if step is layers.pooled and not isinstance(layer, nn.Conv2d):
        pytest.skip("there is nothing to pool")
    if kernels:
        monkeypatch.setattr(mode, "fits", lambda *_: True)
    network = Called(layer, step)
    names = [name for name, _ in network.named_parameters()]

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(network, dict(zip(names, weights, strict=True)), x)
        return found

    stacked = [numbers(CLIENTS, *parameter.shape) for parameter in layer.parameters()]
    assert_stacks(run, numbers(CLIENTS, *shape), *stacked)


class Called(nn.Module):
    """A layer, and the step that it is part of."""

    def __init__(self, layer: nn.Module, step: Callable[[nn.Module, Tensor], Tensor] | None) -> None:
        super().__init__()
        self.layer, self.step = layer, step

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x) if self.step is None else self.step(self.layer, x)
        return found


def test_a_layer_that_somebody_watches_or_changed_is_called() -> None:
    layer, seen = nn.Linear(2, 3), []
    layer.register_forward_hook(lambda *_: seen.append(1))
    other = nn.Linear(2, 3)
    other.forward = torch.exp  # type: ignore[method-assign]
    with Operations():
        layers.activated(layer, torch.zeros(4, 2))
        changed = layers.activated(other, torch.zeros(4, 2))
    assert seen == [1]
    assert torch.equal(changed, torch.ones(4, 2))


@pytest.mark.parametrize("settings", [{}, {"label_smoothing": 0.1}, {"weight": torch.ones(5)}, {"ignore_index": 2}])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-15)])
def test_cross_entropy(settings: dict[str, Any], dtype: torch.dtype, close: float) -> None:
    logits, labels = numbers(CLIENTS, 4, 5).to(dtype), torch.randint(0, 5, (CLIENTS, 4))
    labels[0, 0] = -100

    def gradient(logits: Tensor, labels: Tensor) -> Tensor:
        return torch.func.grad(lambda x: F.cross_entropy(x, labels, reduction="none", **settings).sin().sum())(logits)  # type: ignore[no-any-return]

    settings = {name: value.to(dtype) if name == "weight" else value for name, value in settings.items()}
    if settings.get("ignore_index"):
        labels[0, 0] = 2
    with Operations():
        found = torch.func.vmap(gradient)(logits, labels)
    expected = torch.stack([gradient(one, own) for one, own in zip(logits, labels, strict=True)])
    assert found.dtype == dtype and torch.allclose(found, expected, rtol=0, atol=close)


def test_kernels_are_not_given_more_classes_than_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernels:
        @staticmethod
        def entropy(logits: Tensor, labels: Tensor) -> Tensor:
            return logits.new_full(labels.shape, 7)

    monkeypatch.setattr(entropy, "usable", lambda *_: Kernels)
    with Operations():
        few, many = (
            F.cross_entropy(torch.zeros(2, classes), torch.tensor([0, 1]), reduction="none") for classes in (1024, 1025)
        )
    assert few.tolist() == [7, 7] and torch.allclose(many, torch.tensor(1025.0).log())


def test_cross_entropy_of_whole_numbers_is_refused_as_by_pytorch() -> None:
    with Operations(), pytest.raises(RuntimeError, match="not implemented for"):
        F.cross_entropy(torch.ones(2, 3, dtype=torch.int64), torch.tensor([0, 1]), reduction="none")


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # PyTorch's own, on the way forwards
def test_gradients_of_gradients_are_left_to_pytorch() -> None:
    x, weight = numbers(CLIENTS, 4, 5), numbers(CLIENTS, 6, 5)

    def penalty(x: Tensor, weight: Tensor) -> Tensor:
        slope = torch.func.grad(lambda one: F.linear(one, weight).sin().sum())
        return torch.func.grad(lambda one: slope(one).square().sum())(x)  # type: ignore[no-any-return]

    with Operations():
        found = torch.func.vmap(penalty)(x, weight)
        forwards = torch.func.jvp(F.linear, (x[0], weight[0]), (x[0], weight[0]))[1]
    assert torch.allclose(found, torch.stack([penalty(*one) for one in zip(x, weight, strict=True)]))
    assert torch.allclose(forwards, 2 * F.linear(x[0], weight[0]))


def test_gradients_that_nobody_asks_for_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("nobody asked for this")

    x, weight = numbers(CLIENTS, 4, 2, 8, 7), numbers(CLIENTS, 6, 2, 3, 3)
    for wanted, unwanted in ((1, "input_gradient"), (0, "weight_gradient")):
        with monkeypatch.context() as patch, Operations():
            patch.setattr(f"potluck.engines.stacked.operations.convolution.{unwanted}", refuse)
            torch.func.vmap(torch.func.grad(lambda a, b: F.conv2d(a, b).sum(), wanted))(x, weight)


def test_half_precision_is_as_pytorch_has_it() -> None:
    x, weight, bias = (one.float() for one in (numbers(4, 2, 8, 7), numbers(6, 2, 3, 3), numbers(6)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = F.conv2d(x, weight, bias)
        with Operations():
            found = F.conv2d(x, weight, bias)
    assert found.dtype == torch.bfloat16 and torch.equal(found, expected)


def test_a_view_of_what_lies_otherwise_is_a_copy() -> None:
    x = numbers(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    flat = x.reshape(2, -1)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.view(2, -1)
    with Operations():
        views = [x.view(2, -1), x.view((2, 60)), x.view(size=(2, 60)), x.view_as(flat)]
        bits = flat.view(torch.int64), flat.view(dtype=torch.int64)
    assert all(torch.equal(view, flat) for view in views)
    assert all(one.dtype == torch.int64 for one in bits)


def test_arguments_by_name() -> None:
    x, weight, bias = numbers(2, 3, 6, 6), numbers(4, 3, 3, 3), numbers(4)
    with Operations():
        found = F.conv2d(input=x, weight=weight, bias=bias, padding=1)
        pooled = F.max_pool2d(input=found, kernel_size=2)
    expected = F.conv2d(x, weight, bias, padding=1)
    assert torch.allclose(found, expected) and torch.equal(pooled, F.max_pool2d(expected, 2))
