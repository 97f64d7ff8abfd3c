"""Operations, against numbers worked out by hand and direct counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from potluck.algorithms import algorithm
from potluck.contract import Batch, Networks, Phase, Received, Round, Task
from potluck.metrics.flops import Cost, collecting_cost, training_cost
from potluck.models import build, same_size_extractor, split

CIFAR = (3, 32, 32)
EXTRACTOR = 442_368
"""Multiply-adds of pFedES's extractor on one CIFAR image; half of them in each layer."""
CNN5, CONV1 = 2_875_800, 940_800
"""Multiply-adds of CNN-5 on one CIFAR-10 image, and those of its first layer."""


def forward(net: Networks, batch: Batch, received: Received) -> Tensor:
    return net(batch.x)


def forward_cost(model: nn.Module, classes: int) -> Cost:
    return collecting_cost(split(model, CIFAR), forward, {}, Task(CIFAR, classes), torch.float32)


@pytest.mark.parametrize(
    ("number", "ten", "hundred"),
    [
        (1, 4_825_800, 4_870_800),
        (2, 3_385_800, 3_430_800),
        (3, 3_525_800, 3_570_800),
        (4, 3_265_800, 3_310_800),
        (5, 2_875_800, 2_920_800),
    ],
)
def test_the_papers_networks(number: int, ten: int, hundred: int) -> None:
    for classes, multiply_adds in ((10, ten), (100, hundred)):
        cost = forward_cost(build(f"cnn-{number}", CIFAR, classes), classes)
        assert cost.of([1]) == 2 * multiply_adds
        assert cost.of([512, 488]) == 1000 * 2 * multiply_adds


def test_the_papers_extractor() -> None:
    modules = {"extractor": same_size_extractor(CIFAR)}
    cost = collecting_cost(modules, lambda net, batch, _: net.extractor(batch.x), {}, Task(CIFAR, 10), torch.float32)
    assert cost.of([1]) == 2 * EXTRACTOR


def pfedes() -> tuple[dict[str, nn.Module], list[Phase]]:
    method, task = algorithm("pfedes"), Task(CIFAR, 10)
    return method.networks(build("cnn-5", CIFAR, 10), task), list(method.phases(Round(1, 1)))


def test_the_model_step_of_pfedes_by_hand() -> None:
    """One pass through the extractor, and two trainings of the model that need no gradient of its inputs."""
    modules, (model_step, _) = pfedes()
    training = CNN5 + CNN5 + (CNN5 - CONV1)  # forward, gradients of the weights, gradients of the layers' inputs
    cost = training_cost(modules, model_step, {}, Task(CIFAR, 10), torch.float32)
    assert cost.of([7]) == 7 * 2 * (EXTRACTOR + 2 * training)


def test_the_extractor_step_of_pfedes_by_hand() -> None:
    """The model's weights are frozen: the gradient passes through it, and costs as much as a forward pass."""
    modules, (model_step, extractor_step) = pfedes()
    frozen_model = CNN5 + CNN5
    extractor = EXTRACTOR + EXTRACTOR + EXTRACTOR // 2
    cost = training_cost(modules, extractor_step, {}, Task(CIFAR, 10), torch.float32)
    assert cost.of([7]) == 7 * 2 * (frozen_model + extractor)
    trained = Phase(train=("body", "head", "extractor"), loss=extractor_step.loss)
    assert cost.of([7]) < training_cost(modules, trained, {}, Task(CIFAR, 10), torch.float32).of([7])
    assert cost.of([7]) < training_cost(modules, model_step, {}, Task(CIFAR, 10), torch.float32).of([7])


# ---- the polynomial -------------------------------------------------------------------------------------------------


@given(
    constant=st.integers(0, 10**6),
    linear=st.integers(0, 10**12),
    pairs=st.integers(0, 10**9),
    sizes=st.lists(st.integers(1, 5000), max_size=5),
)
def test_a_polynomial_of_whole_values_is_met_exactly(constant: int, linear: int, pairs: int, sizes: list[int]) -> None:
    def steps(size: int) -> int:
        return constant + linear * size + pairs * (size * (size - 1) // 2)

    assert Cost([steps(size) for size in (2, 4, 8)]).of(sizes) == sum(steps(size) for size in sizes)


def cross_entropy(net: Networks, batch: Batch, received: Received) -> Tensor:
    return batch.cross_entropy(net(batch.x))


def contrast(net: Networks, batch: Batch, received: Received) -> Tensor:
    """Compares all samples of two views with each other."""
    features = torch.cat([net.body(view) for view in batch.views])
    alike = F.log_softmax(features @ features.T, 1)
    return -alike.mean() + cross_entropy(net, batch, received)


@pytest.mark.parametrize(("loss", "views"), [(cross_entropy, 1), (contrast, 2)])
@pytest.mark.parametrize("learning", [("body", "head"), ("body",), ("head",)])
def test_other_batch_sizes_cost_what_a_direct_count_says(
    loss: Callable[[Networks, Batch, Received], Tensor], views: int, learning: tuple[str, ...]
) -> None:
    modules: dict[str, nn.Module] = {
        "body": nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 5)),
        "head": nn.Linear(5, 4),
    }
    task, phase = Task((2, 6, 6), 4), Phase(train=learning, loss=loss, views=views)
    cost = training_cost(modules, phase, {}, task, torch.float32)
    counts = []
    for size in (3, 5, 16):
        x = tuple(torch.rand(size, 2, 6, 6) for _ in range(views))
        batch = Batch(x, torch.zeros(size).long(), torch.ones(size), torch.arange(size), torch.arange(size))
        for name, module in modules.items():
            module.requires_grad_(name in learning)
        with FlopCounterMode(display=False) as counter:
            loss(Networks(modules), batch, {}).backward()  # type: ignore[no-untyped-call]
        counts.append(counter.get_total_flops())
        assert cost.of([size]) == counts[-1]
    assert cost.of([3, 5, 16, 3]) == sum(counts) + counts[0]
    assert counts[0] > 0


def test_counting_changes_nothing() -> None:
    modules = split(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)), (4,))
    for module in modules.values():
        module.eval().requires_grad_(False)
    before = Networks(modules).state()
    phase = Phase(train=("body", "head"), loss=cross_entropy)
    training_cost(modules, phase, {}, Task((4,), 2), torch.float32)
    assert all(torch.equal(tensor, before[path]) for path, tensor in Networks(modules).state().items())
    for module in modules.values():
        assert not module.training
        assert all(not p.requires_grad and p.grad is None for p in module.parameters())
