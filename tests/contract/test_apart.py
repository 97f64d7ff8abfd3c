"""Networks that compute what they give for a sample from it alone: several batches then go through in one pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from potluck.contract import Networks
from potluck.contract.apart import keeps_samples_apart
from potluck.models import build, names
from potluck.models.cnn import CNN

SHAPE = (3, 32, 32)


class Mixing(CNN):
    """Not what it is derived from."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0))


def joined(monkeypatch: pytest.MonkeyPatch, net: Networks, *inputs: Tensor) -> tuple[list[int], tuple[Tensor, ...]]:
    """How many samples each pass had, where passes are joined, and what came of it."""
    monkeypatch.setattr("potluck.contract.networks._JOINING", {"cpu"})
    seen: list[int] = []
    plain = Networks.__call__

    def noted(self: Networks, x: Tensor) -> Tensor:
        seen.append(len(x))
        return plain(self, x)

    monkeypatch.setattr(Networks, "__call__", noted)
    return seen, net.each(*inputs)


def test_several_batches_go_through_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Networks({"body": nn.Sequential(nn.Linear(3, 5), nn.ReLU()), "head": nn.Linear(5, 2)})
    batches = torch.rand(4, 3), torch.rand(6, 3), torch.rand(2, 3)
    separate = net.each(*batches)
    seen, together = joined(monkeypatch, net, *batches)
    assert seen == [12] and len(separate) == len(together) == 3
    for one, other, x in zip(separate, together, batches, strict=True):
        assert torch.equal(one, net(x)) and torch.allclose(one, other)


def test_samples_that_meet_go_through_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Networks({"body": nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)), "head": nn.Linear(5, 2)})
    x, other = torch.rand(4, 3), torch.rand(4, 3)
    seen, (found, _) = joined(monkeypatch, net, x, other)
    assert seen == [4, 4] and torch.equal(found, net(x))


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(3), nn.Dropout(), nn.MultiheadAttention(4, 2), nn.Flatten(0), nn.Flatten(-4), Mixing(1, SHAPE, 2)],
)
def test_layers_that_mix_samples_or_draw_are_not_taken_for_others(layer: nn.Module) -> None:
    assert not keeps_samples_apart(nn.Sequential(layer))


def test_a_layer_that_somebody_changed_is_not_what_its_class_is() -> None:
    watched, changed = nn.Linear(2, 2), nn.Linear(2, 2)
    watched.register_forward_pre_hook(lambda *_: None)
    changed.forward = lambda x: x - x.mean(0)  # type: ignore[method-assign, assignment]
    assert not keeps_samples_apart(watched) and not keeps_samples_apart(changed)


@pytest.mark.parametrize("name", names())
def test_what_our_networks_say_of_themselves_is_true(name: str) -> None:
    model = build(name, SHAPE, 10).double()
    if keeps_samples_apart(model):
        x = torch.rand(3, *SHAPE, dtype=torch.float64)
        assert torch.allclose(model(x), torch.cat([model(one.unsqueeze(0)) for one in x]), rtol=0, atol=1e-12)


def test_the_networks_of_the_papers_keep_samples_apart() -> None:
    assert all(keeps_samples_apart(CNN(number, SHAPE, 10)) for number in range(1, 6))
