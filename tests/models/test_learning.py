"""The papers' networks learn: alone, stacked, and in a federation; batch normalisation and dropout included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

from potluck import draws
from potluck.client import Client
from potluck.engines.randomness import CounterDropout, RefuseUnseeded
from potluck.federation import Federation
from potluck.models import build, names, split

SHAPE, CLASSES = (1, 16, 16), 3
DROPPING = ("alexnet", "fedproto-cnn-1", "googlenet")
ALL = (*DROPPING, *(name for name in names() if name not in DROPPING))
NORMALISING = ("fedproto-resnet-1", "googlenet", "resnet-18", "shufflenet-v2")


def made(name: str, key: int = 0) -> nn.Module:
    with draws.initial_weights(key):
        return build(name, SHAPE, CLASSES)


def samples(count: int, key: int = 0) -> tuple[Tensor, Tensor]:
    numbers = draws.uniform(draws.spread(draws.fold(key, "samples"), torch.arange(count * 256)))
    return numbers.reshape(count, *SHAPE) * 2 - 1, torch.arange(count) % CLASSES


def federation(*networks: str, method: str = "standalone") -> Federation:
    clients = [
        Client(made(name, number), train=samples(5, number), test=samples(3, 100 + number))
        for number, name in enumerate(networks)
    ]
    return Federation(method, clients, device="cpu", batch_size=4)


def held(of: Federation) -> list[dict[str, Tensor]]:
    return [
        {
            f"{part}.{path}": tensor
            for part, net in of.networks(client).items()
            for path, tensor in net.state_dict().items()
        }
        for client in of.clients
    ]


@pytest.fixture(scope="module")
def everyone() -> Federation:
    """One client of each kind, after a round."""
    made = federation(*ALL)
    made.run(1)
    return made


def test_every_network_learns_in_a_federation(everyone: Federation) -> None:
    assert everyone.task.width is None  # their representations differ
    assert everyone.history.rounds[0]["flops"] > 0
    for name, client in zip(ALL, everyone.clients, strict=True):
        start = split(client.architecture.build(), SHAPE)
        for part, now in everyone.networks(client).items():
            before = dict(start[part].named_parameters())
            for path, tensor in now.named_parameters():
                assert torch.isfinite(tensor).all()
                assert not torch.equal(tensor, before[path]), f"{part}.{path} of {name} did not learn"


def test_batch_statistics_are_the_clients_own_and_move_once_per_step(everyone: Federation) -> None:
    for name, state in zip(ALL, held(everyone), strict=True):
        steps = {int(tensor) for path, tensor in state.items() if path.endswith("num_batches_tracked")}
        # Five samples in batches of four: the single one that is left cannot be normalised, and is left out.
        assert steps == ({1} if name in NORMALISING or name == "fedproto-resnet-2" else set())
        means = [tensor for path, tensor in state.items() if path.endswith("running_mean")]
        assert all(mean.abs().max() > 0 for mean in means)


def test_a_network_with_batch_normalisation_can_be_averaged() -> None:
    both = federation("shufflenet-v2", "shufflenet-v2", method="fedavg")
    both.run(1)
    one, other = held(both)
    statistics = [path for path in both.server if path.endswith("running_var")]
    assert len(statistics) == 56
    for path in [*statistics, "head.weight"]:
        assert not torch.equal(one[path], other[path])
        torch.testing.assert_close(both.server[path], (one[path] + other[path]) / 2)
    assert not any(path.endswith("num_batches_tracked") for path in both.server)


def test_dropout_can_be_repeated(everyone: Federation) -> None:
    again = federation(*DROPPING)
    again.run(1)
    for name, one, same in zip(DROPPING, held(everyone), held(again), strict=False):
        assert all(torch.equal(tensor, same[path]) for path, tensor in one.items()), name


@pytest.mark.parametrize("name", names())
def test_dropout_is_a_function_of_the_keys(name: str) -> None:
    model, (x, _) = made(name).train(), samples(4)

    def outputs(key: int) -> Tensor:
        with torch.no_grad(), CounterDropout(draws.spread(key, torch.arange(4))), RefuseUnseeded():  # type: ignore[no-untyped-call]
            logits: Tensor = model(x)
        return logits

    assert torch.equal(outputs(1), outputs(1))
    assert torch.equal(outputs(1), outputs(2)) != (name in (*DROPPING, "fedproto-cnn-2", "fedproto-cnn-3"))


@pytest.mark.parametrize("name", sorted({*DROPPING, *NORMALISING}))
def test_stacked_clients_learn_as_each_alone(name: str) -> None:
    models = [made(name, key).double().train() for key in (1, 2)]
    batches = [samples(4, key) for key in (3, 4)]
    x, y = (torch.stack(parts) for parts in zip(*batches, strict=True))
    x, keys = x.double(), torch.stack([draws.spread(key, torch.arange(4)) for key in (5, 6)])
    weights, buffers = stack_module_state(models)
    base = made(name).double().train()

    def loss(weights: Any, buffers: Any, x: Tensor, y: Tensor, keys: Tensor) -> Tensor:
        with CounterDropout(keys):
            return F.cross_entropy(functional_call(base, (weights, buffers), (x,)), y)

    gradients, losses = vmap(grad_and_value(loss))(weights, buffers, x, y, keys)
    for client, model in enumerate(models):
        with CounterDropout(keys[client]):
            alone = F.cross_entropy(model(x[client]), y[client])
        alone.backward()  # type: ignore[no-untyped-call]
        torch.testing.assert_close(losses[client], alone.detach(), rtol=1e-9, atol=1e-9)
        for path, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[path][client], parameter.grad, rtol=1e-7, atol=1e-9)
        for path, buffer in model.named_buffers():
            torch.testing.assert_close(buffers[path][client], buffer, rtol=1e-9, atol=1e-9)
