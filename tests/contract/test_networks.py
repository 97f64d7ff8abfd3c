"""A client's networks: called by name, copied, loaded, and run on other weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from potluck.contract import Networks
from potluck.errors import ModelError


class Buffers(nn.Module):
    """All kinds of state: a weight, a lasting and a passing buffer, a counter, and something that is no tensor."""

    passing: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("lasting", torch.zeros(2))
        self.register_buffer("passing", torch.zeros(2), persistent=False)
        self.register_buffer("counter", torch.tensor(0))

    def get_extra_state(self) -> object:
        return {"anything": 1}

    def set_extra_state(self, state: object) -> None:
        del state

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.passing


def net() -> Networks:
    return Networks({"body": nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), "head": nn.Linear(2, 4)})


def test_networks_are_called_by_their_names() -> None:
    both, x = net(), torch.rand(5, 3)
    assert both.body is both.modules["body"]
    assert torch.equal(both(x), both.modules["head"](both.modules["body"](x)))


def test_a_network_that_is_not_there_is_an_error_that_lists_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"'extractor'.*body, head"):
        _ = net().extractor
    with pytest.raises(AttributeError):
        _ = net()._body


def test_state_is_a_copy_of_everything() -> None:
    held = Networks({"all": Buffers()})
    state = held.state()
    assert set(state) == {"all.weight", "all.lasting", "all.passing", "all.counter"}
    for tensor in state.values():
        tensor.add_(5)
        assert not tensor.requires_grad
    assert held.modules["all"].get_parameter("weight").tolist() == [1, 1]
    assert held.modules["all"].get_buffer("passing").tolist() == [0, 0]


def test_state_of_some() -> None:
    assert set(net().state("head")) == {"head.weight", "head.bias"}
    counters = {path for path in net().state() if "num_batches" in path}
    assert counters == {"body.1.num_batches_tracked"}


def test_what_travels_is_floating_and_lasting() -> None:
    assert set(Networks({"all": Buffers()}).travelling("all")) == {"all.weight", "all.lasting"}
    assert "body.1.running_mean" in net().travelling("body", "head")
    assert "body.1.num_batches_tracked" not in net().travelling("body")
    assert net().travelling() == {}


def test_what_travels_is_a_copy() -> None:
    both = net()
    both.travelling("head")["head.weight"].zero_()
    assert bool(both.modules["head"].get_parameter("weight").any())


def test_loading_copies_what_is_named_and_leaves_the_rest() -> None:
    one, other = net(), net()
    before = other.state()
    given = one.state("head")
    other.load(given)
    given["head.weight"].zero_()
    for path, tensor in other.state().items():
        expected = one.state()[path] if path.startswith("head.") else before[path]
        assert torch.equal(tensor, expected)


def test_loading_reaches_every_kind_of_state() -> None:
    held = Networks({"all": Buffers()})
    held.load({path: tensor + 3 for path, tensor in held.state().items()})
    assert {path: set(tensor.flatten().tolist()) for path, tensor in held.state().items()} == {
        "all.weight": {4},
        "all.lasting": {3},
        "all.passing": {3},
        "all.counter": {3},
    }


def test_loading_keeps_the_weights_the_same_objects() -> None:
    both = net()
    weight = both.modules["head"].get_parameter("weight")
    both.load({"head.weight": torch.zeros(4, 2)})
    assert both.modules["head"].get_parameter("weight") is weight
    assert weight.requires_grad
    assert not bool(weight.any())


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 2), (2, 4), ()])
def test_a_weight_of_another_shape_is_refused_by_name(shape: tuple[int, ...]) -> None:
    # Copying alone would repeat a row, or a number, all over the weight.
    with pytest.raises(ModelError, match=r"'head\.weight'.*\(4, 2\)"):
        net().load({"head.weight": torch.zeros(shape)})


@pytest.mark.parametrize("path", ["head.wait", "header.weight", "head", "body.0.weight.x"])
def test_a_weight_that_no_network_has_is_refused_by_name(path: str) -> None:
    with pytest.raises(ModelError, match=path):
        net().load({path: torch.zeros(1)})


def test_parameters_are_the_live_ones() -> None:
    both = net()
    found = both.parameters("body")
    assert list(found) == ["body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias"]
    assert found["body.0.weight"] is both.modules["body"].get_parameter("0.weight")


def test_call_runs_on_other_weights_and_leaves_the_own_alone() -> None:
    one, other, x = net(), net(), torch.rand(5, 2)
    before = one.state()
    result = one.call("head", x, weights=other.state())
    assert torch.equal(result, other.head(x))
    assert all(torch.equal(tensor, before[path]) for path, tensor in one.state().items())


def test_call_runs_in_evaluation_and_changes_nothing() -> None:
    one, other, x = net(), net(), torch.rand(5, 3)
    one.modules["body"].train()
    other.modules["body"].eval()
    before = one.state()
    weights = other.travelling("body")  # without counters, which are then the own
    given = {path: tensor.clone() for path, tensor in weights.items()}
    assert torch.equal(one.call("body", x, weights=weights), other.body(x))
    assert one.modules["body"].training
    assert all(torch.equal(tensor, before[path]) for path, tensor in one.state().items())
    assert all(torch.equal(tensor, given[path]) for path, tensor in weights.items())


def test_given_weights_stand_in_for_the_own_everywhere() -> None:
    one, other, x = net(), net(), torch.rand(5, 3)
    for both in (one, other):
        for module in both.modules.values():
            module.eval()
    weights = other.state()
    borrowed = Networks(one.modules, weights)
    assert torch.equal(borrowed(x), other(x))
    assert torch.equal(borrowed.head(x[:, :2]), other.head(x[:, :2]))
    assert borrowed.parameters("head")["head.bias"] is weights["head.bias"]
    assert all(torch.equal(tensor, weights[path]) for path, tensor in borrowed.state().items())


def test_networks_run_under_vmap() -> None:
    nets, x = [net(), net()], torch.rand(2, 5, 3)
    for both in nets:
        for module in both.modules.values():
            module.eval()
    stacked = {path: torch.stack([both.state()[path] for both in nets]) for path in nets[0].state()}

    def run(weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return Networks(nets[0].modules, weights)(inputs)

    together = torch.func.vmap(run)(stacked, x)
    for number, both in enumerate(nets):
        assert torch.allclose(together[number], both(x[number]), atol=1e-6)


def test_call_on_received_weights_changes_nothing() -> None:
    """Not even statistics of batch norm, on a network that is learning."""
    net = Networks({"body": nn.BatchNorm1d(3), "head": nn.Linear(3, 2)})
    received = {path: tensor + 1 for path, tensor in net.travelling("body").items()}
    kept, before = {path: tensor.clone() for path, tensor in received.items()}, net.state()
    x = torch.randn(5, 3)
    output = net.call("body", x, weights=received)
    mean, var = received["body.running_mean"], received["body.running_var"]
    expected = (x - mean) / (var + 1e-5).sqrt() * received["body.weight"] + received["body.bias"]
    torch.testing.assert_close(output, expected)
    assert all(torch.equal(kept[path], tensor) for path, tensor in received.items())
    assert all(torch.equal(before[path], tensor) for path, tensor in net.state().items())
    assert net.modules["body"].training


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.BatchNorm1d(3, momentum=None),
                                   nn.InstanceNorm1d(4, track_running_stats=True)])  # fmt: skip
def test_untracked_computes_the_same_and_keeps_running_statistics(layer: nn.Module, training: bool) -> None:
    shape = (5, 4, 3) if isinstance(layer, nn.InstanceNorm1d) else (5, 3)
    one, other = (
        Networks({"body": nn.Sequential(copy.deepcopy(layer).train(training)), "head": nn.Identity()}) for _ in range(2)
    )
    x, before = torch.randn(*shape) + 1, one.state()
    with one.untracked():
        output = one(x)
    assert torch.equal(output, other(x))
    assert all(torch.equal(before[path], tensor) for path, tensor in one.state().items())
    one(x)
    assert all(torch.equal(tensor, one.state()[path]) for path, tensor in other.state().items())
    assert any(not torch.equal(before[path], tensor) for path, tensor in one.state().items()) == training


def test_statistics_are_tracked_again_after_an_error() -> None:
    norm = nn.BatchNorm1d(3)
    with pytest.raises(ValueError, match="anything"), Networks({"body": norm}).untracked():
        raise ValueError("anything")
    assert norm.track_running_stats


@pytest.mark.parametrize("tracked", [None, 0, 1, 2])
def test_each_tracks_one_batch_or_all(tracked: int | None) -> None:
    one, other = (Networks({"body": nn.BatchNorm1d(3), "head": nn.Linear(3, 2)}) for _ in range(2))
    other.load(one.state())
    batches = [torch.randn(5, 3) + number for number in range(3)]
    outputs = one.each(*batches, tracked=tracked)
    for number, x in enumerate(batches):
        assert torch.equal(outputs[number], other(x))
    fresh = nn.BatchNorm1d(3)
    for x in batches if tracked is None else batches[tracked : tracked + 1]:
        fresh(x)
    assert all(torch.equal(tensor, one.state()[f"body.{path}"]) for path, tensor in fresh.named_buffers())
