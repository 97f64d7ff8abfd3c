"""Masked batch norm against PyTorch's own on the samples that count."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import Tensor, nn

from potluck.contract import Networks, Task
from potluck.engines.stacked.operations.normalization import normalized
from potluck.engines.stacked.template import Template
from potluck.errors import ModelError

REAL, ALL, CHANNELS = 3, 5, 4
OPTIONS = list(itertools.product((0.1, 0.5, None), (True, False), (True, False)))
LAYERS = {"rows": (nn.BatchNorm1d, ()), "lines": (nn.BatchNorm1d, (6,)), "images": (nn.BatchNorm2d, (3, 2)),
          "volumes": (nn.BatchNorm3d, (2, 1, 2))}  # fmt: skip


def layer(kind: type[nn.Module], momentum: float | None, affine: bool, tracked: bool) -> nn.Module:
    torch.manual_seed(0)
    made = kind(CHANNELS, momentum=momentum, affine=affine, track_running_stats=tracked, eps=1e-3).double()
    for tensor in (*made.parameters(), *(b for b in made.buffers() if b.is_floating_point())):
        tensor.detach().uniform_(0.5, 1.5)
    return made


def alone(net: nn.Module, xs: list[Tensor], training: bool) -> tuple[Tensor, list[Tensor], dict[str, Tensor]]:
    """A loss, its gradients by inputs and parameters, and the buffers after it."""
    net = copy.deepcopy(net).train(training)
    xs = [x.clone().requires_grad_() for x in xs]
    loss = sum(((number + 1) * net(x).sin().sum() for number, x in enumerate(xs)), torch.zeros(()))
    gradients = torch.autograd.grad(loss, [*xs, *net.parameters()])
    return loss.detach(), list(gradients), dict(net.named_buffers())


def stacked(
    net: nn.Module, xs: list[Tensor], weight: Tensor, training: bool
) -> tuple[Tensor, list[Tensor], dict[str, Tensor]]:
    """The same of three clients, of whom the first has padding, the second none and the third nothing else."""
    template = Template({"body": net}, Task((1,), 2))
    template.train(("body",) if training else ())
    held = {f"body.{path}": tensor.detach() for path, tensor in (*net.named_parameters(), *net.named_buffers())}
    learned = [f"body.{path}" for path, _ in net.named_parameters()]
    clients = len(weight)
    stack = {path: tensor.expand(clients, *tensor.shape) for path, tensor in held.items()}

    def loss(inputs: list[Tensor], parameters: dict[str, Tensor], rest: dict[str, Tensor], counts: Tensor):  # type: ignore[no-untyped-def]
        with template.norms.seeing(counts) as norms:
            networks = template.networks({**rest, **parameters})
            outputs = [networks.body(x) for x in inputs]
            total = sum(
                ((number + 1) * (y.sin().flatten(1).sum(1) * counts.repeat(len(y) // len(counts))).sum()
                for number, y in enumerate(outputs)), torch.zeros(())
            )  # fmt: skip
            return total, norms.updates

    gradient = torch.func.grad_and_value(loss, argnums=(0, 1), has_aux=True)
    parameters = {path: stack[path] for path in learned}
    rest = {path: tensor for path, tensor in stack.items() if path not in learned}
    (inputs, slopes), (value, updates) = torch.func.vmap(gradient)(xs, parameters, rest, weight)
    return value, [*inputs, *(slopes[path] for path in learned)], {**rest, **updates}


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(("momentum", "affine", "tracked"), OPTIONS)
@pytest.mark.parametrize("kind", LAYERS)
def test_it_computes_what_batch_norm_does_on_the_samples_that_count(
    kind: str, momentum: float | None, affine: bool, tracked: bool, training: bool
) -> None:
    module, shape = LAYERS[kind]
    net = layer(module, momentum, affine, tracked)
    x, again = torch.randn(3, ALL, CHANNELS, *shape).double(), torch.randn(3, ALL, CHANNELS, *shape).double()
    weight = torch.tensor([[1] * REAL + [0] * (ALL - REAL), [1] * ALL, [0] * ALL]).double()
    value, gradients, buffers = stacked(net, [x, again], weight, training)
    for client, count in enumerate((REAL, ALL)):
        expected = alone(net, [x[client, :count], again[client, :count]], training)
        assert torch.allclose(value[client], expected[0], rtol=1e-12)
        for number, slope in enumerate(expected[1]):
            found = gradients[number][client]
            assert torch.allclose(found[:count] if number < 2 else found, slope, rtol=1e-10, atol=1e-12)
            if number < 2:
                assert not found[count:].any()
        for path, tensor in expected[2].items():
            assert torch.allclose(buffers[f"body.{path}"][client].double(), tensor.double(), rtol=1e-12), path
    assert all(torch.isfinite(tensor).all() for tensor in (*gradients, *buffers.values()))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_an_untracked_pass_leaves_no_statistics(momentum: float | None) -> None:
    template = Template({"body": layer(nn.BatchNorm1d, momentum, True, True), "head": nn.Identity()}, Task((1,), 2))
    template.train(("body",))
    first, second, weight = torch.randn(ALL, CHANNELS).double(), torch.randn(ALL, CHANNELS).double(), torch.ones(ALL)

    def run(*inputs: Tensor) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        with template.norms.seeing(weight.double()) as norms:
            return template.networks(template.own).each(*inputs, tracked=len(inputs) - 1), norms.updates

    (other, output), updates = run(first, second)
    (alone,), expected = run(second)
    assert updates.keys() == expected.keys() == {f"body.{path}" for path, _ in nn.BatchNorm1d(1).named_buffers()}
    assert all(torch.equal(updates[path], tensor) for path, tensor in expected.items())
    assert torch.equal(output, alone) and torch.equal(other, run(first)[0][0])


def test_a_network_called_with_several_times_the_batch_repeats_the_weights() -> None:
    net = layer(nn.BatchNorm1d, 0.1, True, True)
    x = torch.randn(1, 2 * ALL, CHANNELS).double()
    weight = torch.tensor([[1.0] * REAL + [0.0] * (ALL - REAL)]).double()
    real = torch.cat((x[0, :REAL], x[0, ALL : ALL + REAL]))
    value, _, buffers = stacked(net, [x], weight, training=True)
    expected = alone(net, [real], training=True)
    assert torch.allclose(value[0], expected[0], rtol=1e-12)
    assert torch.allclose(buffers["body.running_var"][0], expected[2]["running_var"], rtol=1e-12)


def test_samples_that_are_no_rows_are_refused() -> None:
    template = Template({"body": layer(nn.BatchNorm1d, 0.1, True, True)}, Task((1,), 2))
    template.train(("body",))
    net = template.networks(template.own)
    with template.norms.seeing(torch.ones(4).double()), pytest.raises(ModelError, match="keep samples in rows"):
        net.body(torch.ones(6, CHANNELS).double())
    with pytest.raises(ModelError, match="outside of a step"):
        net.body(torch.ones(4, CHANNELS).double())


@pytest.mark.parametrize(("shape", "takes_two"), [((CHANNELS,), True), ((CHANNELS, 1), True), ((CHANNELS, 2), False)])
def test_it_notes_where_one_sample_has_no_variance(shape: tuple[int, ...], takes_two: bool) -> None:
    template = Template({"body": layer(nn.BatchNorm1d, 0.1, True, True)}, Task((1,), 2))
    template.train(("body",))
    with template.norms.seeing(torch.ones(4).double()):
        template.networks(template.own).body(torch.randn(4, *shape).double())
    assert template.norms.takes_two == takes_two


def test_the_networks_that_were_given_stay_as_they_are() -> None:
    net = nn.Sequential(layer(nn.BatchNorm1d, 0.1, True, True))
    before = copy.deepcopy(net.state_dict())
    template = Template({"body": net}, Task((1,), 2))
    template.train(("body",))
    with template.norms.seeing(torch.ones(4).double()):
        Networks(template.modules, template.own).body(torch.randn(4, CHANNELS).double())
    for module in (net, template.modules["body"]):
        assert all(torch.equal(tensor, before[path]) for path, tensor in module.state_dict().items())
    assert net(torch.randn(4, CHANNELS).double()).shape == (4, CHANNELS)


def test_numbers_of_half_precision_are_added_up_in_single() -> None:
    """A thousand of them: to count so far, eight bits would not do."""
    x = 3 + torch.randn(1, 1001, CHANNELS, generator=torch.Generator().manual_seed(0)).bfloat16()
    out, mean, variance, _ = normalized(x, torch.ones(1, 1001), None, None, eps=1e-3)
    assert out.dtype == torch.bfloat16 and mean.dtype == torch.float32
    assert torch.allclose(mean.double(), x.double().mean(1), rtol=1e-5)
    assert torch.allclose(variance.double(), x.double().var(1), rtol=1e-5)


def test_its_gradient_has_a_gradient() -> None:
    net = layer(nn.BatchNorm1d, 0.1, True, True)
    template = Template({"body": net}, Task((1,), 2))
    template.train(("body",))
    x, weight = torch.randn(ALL, CHANNELS).double(), torch.tensor([1.0] * REAL + [0.0] * (ALL - REAL)).double()

    def penalty(x: Tensor, weight: Tensor) -> Tensor:
        with template.norms.seeing(weight):
            body = template.networks(template.own).body
            steepness: Tensor = torch.func.grad(lambda inner: (body(inner).sin() * weight[:, None]).sum())(x)
        return (steepness.square() * weight[:, None]).sum()

    found = torch.func.vmap(torch.func.grad(penalty))(x[None], weight[None])[0]
    alone = x[:REAL].clone().requires_grad_()
    (steepness,) = torch.autograd.grad(copy.deepcopy(net).train()(alone).sin().sum(), alone, create_graph=True)
    (expected,) = torch.autograd.grad(steepness.square().sum(), alone)
    assert torch.allclose(found[:REAL], expected, rtol=1e-10, atol=1e-12) and not found[REAL:].any()
