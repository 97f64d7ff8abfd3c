"""One string per architecture."""

from __future__ import annotations

import copy
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from functools import partial
from threading import Lock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from potluck.models import build, fingerprint, names
from potluck.models.copying import copy_of


class Functional(nn.Module):
    """A network with settings that it does not print."""

    def __init__(
        self, stride: int = 1, act: Callable[[Tensor], Tensor] = F.relu, sides: tuple[int, ...] = (1,)
    ) -> None:
        super().__init__()
        self.stride, self.act, self.sides = stride, act, sides
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.fc(self.act(x[:: self.stride]))
        return output


class Printed(nn.Module):
    """A network whose settings show in nothing but what it prints."""

    def __init__(self, hidden: object) -> None:
        super().__init__()
        self._hidden = hidden

    def extra_repr(self) -> str:
        return f"hidden={self._hidden}"


class Tied(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        if tied:
            self.b.weight = self.a.weight


ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(4, 2),
    "wider": lambda: nn.Linear(4, 3),
    "no bias": lambda: nn.Linear(4, 2, bias=False),
    "double": lambda: nn.Linear(4, 2, dtype=torch.float64),
    "wrapped": lambda: nn.Sequential(nn.Linear(4, 2)),
    "relu after": lambda: nn.Sequential(nn.Linear(4, 2), nn.ReLU()),
    "relu before": lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 2)),
    "tanh after": lambda: nn.Sequential(nn.Linear(4, 2), nn.Tanh()),
    "sigmoid after": lambda: nn.Sequential(nn.Linear(4, 2), nn.Sigmoid()),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.1)),
    "more dropout": lambda: nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.2)),
    "batch norm": lambda: nn.BatchNorm1d(2),
    "slower batch norm": lambda: nn.BatchNorm1d(2, momentum=0.01),
    "padded": lambda: nn.Conv2d(3, 3, 3, padding=1),
    "strided": lambda: nn.Conv2d(3, 3, 3, padding=1, stride=2),
    "functional": Functional,
    "stride as an attribute": lambda: Functional(stride=2),
    "function as an attribute": lambda: Functional(act=torch.tanh),
    "tuple as an attribute": lambda: Functional(sides=(1, 2)),
    "printed": lambda: Printed(1),
    "printed otherwise": lambda: Printed(2),
    "untied": lambda: Tied(tied=False),
    "tied": lambda: Tied(tied=True),
    **{name: partial(build, name, (3, 32, 32), 10) for name in names()},
    "cnn-5, 100 classes": lambda: build("cnn-5", (3, 32, 32), 100),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_do_not_count(name: str) -> None:
    first, second = ARCHITECTURES[name](), ARCHITECTURES[name]()
    assert fingerprint(first) == fingerprint(second) == fingerprint(copy.deepcopy(first))


def test_every_difference_counts() -> None:
    prints = {name: fingerprint(make()) for name, make in ARCHITECTURES.items()}
    for (one, first), (other, second) in itertools.combinations(prints.items(), 2):
        assert first != second, f"{one} and {other}"


def test_neither_use_nor_mode_nor_freezing_counts() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.Linear(3, 2))
    before = fingerprint(model)
    model(torch.randn(5, 4)).sum().backward()
    model.eval().requires_grad_(False)
    assert fingerprint(model) == before


def test_the_same_in_another_process() -> None:
    # Another hash seed and other addresses: neither may show.
    program = (
        "from torch import nn; from potluck.models import fingerprint;"
        "print(fingerprint(nn.TransformerEncoderLayer(4, 2)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == fingerprint(nn.TransformerEncoderLayer(4, 2))


def test_what_cannot_be_written_counts_by_its_type() -> None:
    assert fingerprint(Printed(Lock())) == fingerprint(Printed(Lock()))
    assert fingerprint(Printed(Lock())) != fingerprint(Printed(object()))


def scaled(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda x: x * factor


def summing(factor: float) -> Callable[[list[float]], float]:
    """A function with a function in it, whose constant is all that differs."""
    if factor == 2:
        return lambda values: sum(map(lambda value: value * 2, values))  # noqa: C417
    return lambda values: sum(map(lambda value: value * 3, values))  # noqa: C417


class Slotted:
    __slots__ = ("__dict__", "value")

    def __init__(self, value: int) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 100),
        (partial(F.leaky_relu, negative_slope=0.1), partial(F.leaky_relu, negative_slope=0.2)),
        (partial(torch.clamp, 0), partial(torch.clamp, 1)),
        (summing(2), summing(3)),
        (Slotted(1), Slotted(2)),
        (torch.eye(2).to_sparse(), torch.ones(2, 2).to_sparse()),
        (Printed(nn.Linear(2, 2)), Printed(nn.Linear(2, 3))),
        ([nn.Linear(2, 2)], [nn.Linear(2, 3)]),
        ({"depth": 1}, {"depth": 2}),
        (torch.ones(2), torch.zeros(2)),
        (scaled(1), scaled(2)),
        (lambda x: x, lambda x: -x),
        (np.int64(3), np.int64(4)),
        (np.arange(3), np.arange(4)),
        (date(2020, 1, 1), date(2020, 1, 2)),
        (lambda x: x + 1, lambda x: x + 2),
    ],
)
def test_private_attributes_count(one: object, other: object) -> None:
    assert fingerprint(Printed(one)) != fingerprint(Printed(other))
    assert fingerprint(Printed(one)) == fingerprint(copy.deepcopy(Printed(one)))


def times(factor: float, base: type[nn.Module] = nn.Module) -> nn.Module:
    """A network of a class that is made here: always of the same name, but not of the same code."""

    class Net(base):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.fc(x * factor)
            return output

    return Net()


def test_classes_of_one_name_count_by_what_is_in_them() -> None:
    assert fingerprint(times(2)) == fingerprint(times(2))
    assert fingerprint(times(2)) != fingerprint(times(3))
    assert fingerprint(times(2)) != fingerprint(times(2, base=nn.Sequential))
    # As when a cell of a notebook is run again.
    old = Functional()
    again: type[nn.Module] = type("Functional", (Functional,), {"forward": lambda _self, x: x})
    again.__qualname__, again.__module__ = Functional.__qualname__, Functional.__module__
    assert fingerprint(old) != fingerprint(again())


def test_hooks_count_by_what_they_do() -> None:
    def hooked(factor: float) -> nn.Module:
        model = nn.Linear(4, 2)
        model.register_forward_hook(lambda _layer, _args, output: output * factor)
        return model

    assert fingerprint(hooked(2)) == fingerprint(hooked(2))
    assert len({fingerprint(hooked(2)), fingerprint(hooked(3)), fingerprint(nn.Linear(4, 2))}) == 3


class Child(nn.Module):
    """Knows its parent, in a list so that it is not taken for a part of it."""

    def __init__(self, parent: nn.Module, size: int) -> None:
        super().__init__()
        self.parent, self.fc = [parent], nn.Linear(size, size)


class Parent(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.children_ = nn.ModuleList(Child(self, size) for size in sizes)


def test_networks_that_know_themselves() -> None:
    assert fingerprint(Parent(2, 3)) == fingerprint(Parent(2, 3)) == fingerprint(copy.deepcopy(Parent(2, 3)))
    assert fingerprint(Parent(2, 3)) != fingerprint(Parent(2, 4))
    assert fingerprint(Parent(2, 3).children_[0]) != fingerprint(Parent(2, 4).children_[0])


def test_what_has_no_content_yet() -> None:
    def later(x: Tensor) -> Tensor:
        return unknown(x)

    assert fingerprint(Printed(later)) == fingerprint(Printed(later))
    assert fingerprint(Printed(torch.empty(3, device="meta"))) != fingerprint(Printed(torch.empty(4, device="meta")))
    if fingerprint is None:

        def unknown(x: Tensor) -> Tensor:
            return x


def pruned(model: nn.Module) -> nn.Module:
    prune.random_unstructured(model, "weight", amount=0.5)  # type: ignore[no-untyped-call]  # PyTorch's own
    return model


RECURRENT_AND_NORMALISED: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "plain lstm": lambda: nn.LSTM(3, 4),
    "gru": lambda: nn.GRU(3, 4),
    "rnn": lambda: nn.RNN(3, 4),
    "rnn with relu": lambda: nn.RNN(3, 4, nonlinearity="relu"),
    "weight norm": lambda: torch.nn.utils.weight_norm(nn.Linear(3, 4)),
    "weight norm of columns": lambda: torch.nn.utils.weight_norm(nn.Linear(3, 4), dim=1),
    "spectral norm": lambda: torch.nn.utils.spectral_norm(nn.Linear(3, 4)),
    "pruned": lambda: pruned(nn.Linear(3, 4)),
    "parametrized weight norm": lambda: parametrizations.weight_norm(nn.Linear(3, 4)),
    "parametrized spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(3, 4)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(3, 4)),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("name", RECURRENT_AND_NORMALISED)
def test_weights_do_not_count_where_modules_hold_them_twice(name: str) -> None:
    first, second = RECURRENT_AND_NORMALISED[name](), RECURRENT_AND_NORMALISED[name]()
    before = fingerprint(first)
    assert before == fingerprint(second) == fingerprint(copy_of(first))
    output = first(torch.randn(5, 3))
    (output[0] if isinstance(output, tuple) else output).sum().backward()  # what was computed last is no part of it
    assert before == fingerprint(first) == fingerprint(copy_of(first))
    others = {fingerprint(make()) for other, make in RECURRENT_AND_NORMALISED.items() if other != name}
    assert before not in others


def test_a_tensor_of_ones_own_still_counts_where_another_is_computed() -> None:
    def normalised(scale: float) -> nn.Module:
        model = torch.nn.utils.spectral_norm(nn.Linear(3, 4))
        model.scale = torch.tensor(scale)
        return model

    assert fingerprint(normalised(1.0)) == fingerprint(normalised(1.0)) != fingerprint(normalised(2.0))
