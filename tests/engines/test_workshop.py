"""What clients hold before they have trained, and how it lies in memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from potluck.client import Architecture
from potluck.contract import Networks, Phase
from potluck.engines.workshop import Workshop

from .made_up import (
    CLASSES,
    IMAGES,
    MadeUp,
    changed,
    cross_entropy,
    full_model,
    image_model,
    member,
    model,
    plain_model,
    setting,
    train,
)


class Viewing(nn.Module):
    """Reshapes images by view(), which some layouts in memory do not allow."""

    def __init__(self, reshape: bool) -> None:
        super().__init__()
        self.reshape = reshape

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), -1) if self.reshape else x.view(len(x), -1)


def viewing(reshape: bool) -> nn.Module:
    return model(nn.Conv2d(2, 3, 3), nn.Tanh(), Viewing(reshape), nn.Linear(48, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def test_a_network_that_uses_view_works_as_one_that_does_not() -> None:
    given = setting(MadeUp(), IMAGES, epochs=2)
    states = [train(given, member(viewing(way), shape=IMAGES)).state for way in (True, False)]
    for path, tensor in states[0].items():
        assert torch.allclose(tensor, states[1][path], rtol=1e-10, atol=1e-12), path


@pytest.mark.parametrize(("reshape", "layout"), [(True, torch.channels_last), (False, torch.contiguous_format)])
def test_images_are_laid_out_as_the_network_can_take_them(reshape: bool, layout: torch.memory_format) -> None:
    workshop = Workshop(setting(MadeUp(), IMAGES))
    net = workshop.networks(Architecture.of(viewing(reshape)))
    assert workshop.inputs(net).layout == layout
    assert net.modules["body"].get_parameter("0.weight").is_contiguous(memory_format=layout)


def test_rows_have_no_layout() -> None:
    workshop = Workshop(setting(MadeUp()))
    assert workshop.inputs(workshop.networks(Architecture.of(plain_model()))).layout == torch.contiguous_format


def test_trying_a_layout_changes_nothing() -> None:
    workshop = Workshop(setting(MadeUp(), IMAGES))
    architecture = Architecture.of(image_model())
    net = workshop.networks(architecture)
    assert changed(workshop.initial(architecture), net.state()) == set()
    assert all(module.training for module in net.modules.values())


def test_a_client_starts_from_the_weights_of_its_model() -> None:
    workshop = Workshop(setting(MadeUp()))
    state = workshop.initial(Architecture.of(full_model(7)))
    own = full_model(7).state_dict()
    for path, tensor in own.items():
        part = "head" + path[1:] if path.startswith("8.") else "body." + path
        assert torch.equal(state[part], tensor)


def added() -> dict[str, nn.Module]:
    return {"mixer": nn.Linear(5, 5)}


def test_networks_that_an_algorithm_adds_start_alike_for_an_architecture_and_a_seed() -> None:
    def mixer(seed: int, net: nn.Module) -> Tensor:
        return Workshop(setting(MadeUp(added=added), seed=seed)).initial(Architecture.of(net))["mixer.weight"]

    torch.manual_seed(0)
    base = mixer(0, plain_model(1))
    torch.manual_seed(1)
    assert torch.equal(base, mixer(0, plain_model(2)))
    assert not torch.equal(base, mixer(1, plain_model(1)))
    assert not torch.equal(base, mixer(0, full_model()))
    assert base.dtype == torch.float64


def test_initial_weights_are_made_again_when_they_were_let_go() -> None:
    workshop = Workshop(setting(MadeUp(added=added)))
    architectures = [Architecture.of(plain_model(key)) for key in range(30)]
    first = [workshop.initial(architecture)["head.weight"].clone() for architecture in architectures]
    for architecture, weight in zip(architectures, first, strict=True):
        assert torch.equal(workshop.initial(architecture)["head.weight"], weight)


def test_networks_are_made_once_per_architecture() -> None:
    workshop = Workshop(setting(MadeUp()))
    one, same, other = (Architecture.of(net) for net in (plain_model(0), plain_model(1), full_model()))
    assert workshop.networks(one) is workshop.networks(same)
    assert workshop.networks(one) is not workshop.networks(other)
    fresh = Networks(workshop.make(one))
    assert fresh.modules["body"] is not workshop.networks(one).modules["body"]


def test_batches_of_a_phase_depend_on_what_learns_in_it() -> None:
    workshop = Workshop(setting(MadeUp()))
    net = workshop.networks(Architecture.of(full_model()))
    sizes = [workshop.batch_sizes(net, Phase(train=(name,), loss=cross_entropy), 9) for name in ("body", "head")]
    assert sizes == [[4, 4], [4, 4, 1]]
