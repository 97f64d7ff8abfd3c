"""What a user gives: a model and samples, as they come."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from potluck.client import Architecture, Client, as_examples, as_tensor
from potluck.data.examples import Examples
from potluck.errors import ConfigError, DataError, ModelError
from potluck.federation import Federation

X, Y = torch.arange(12.0).reshape(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))


# ---- samples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        (X, Y),
        [X, Y],
        (X.numpy(), Y.numpy()),
        (X.numpy(), Y),
        (X.tolist(), Y.tolist()),
        (X, Y.to(torch.uint8)),
        (X, Y.numpy().astype(np.int32)),
        (X.flip(0).numpy()[::-1], Y.numpy()[::-1][::-1]),
        Examples(X, Y),
        Examples(torch.cat([X, X]), torch.cat([Y, Y]), rows=torch.arange(6)),
    ],
    ids=["tensors", "list", "arrays", "mixed", "lists", "bytes", "int32", "reversed", "examples", "rows"],
)
def test_samples_as_they_come(given: Any) -> None:
    client = Client(net(), train=given)
    x, y = client.train.take(torch.arange(6))
    assert torch.equal(x, X)
    assert y.tolist() == Y.tolist()
    assert y.dtype == torch.int64
    assert len(client.train) == 6
    assert len(client.test) == len(client.validation) == len(client.holdout) == 0


def test_arrays_that_cannot_be_written_are_taken_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    x = X.numpy().copy()
    x.setflags(write=False)
    assert torch.equal(as_tensor(x), X)
    assert len(recwarn) == 0


def test_tensors_and_plain_arrays_are_not_copied() -> None:
    x = X.numpy().copy()
    assert as_tensor(x).data_ptr() == torch.from_numpy(x).data_ptr()
    assert as_tensor(X) is X


@pytest.mark.parametrize(
    "given",
    [
        X, X.numpy(), X[:2], (X,), (X, Y, Y), "data", 3, {"x": X, "y": Y}, (X, Y[:5]), (X, Y.double()), (X, Y[:, None]),
        (X, ["a"] * 6), (np.array([object()] * 6), Y), ([[1.0], [1.0, 2.0]], Y[:2]),
    ],
    ids=[
        "no labels", "no labels, array", "two rows", "one", "three", "text", "number", "table", "too few labels",
        "labels that are not whole", "labels in a column", "labels of text", "objects", "ragged",
    ],
)  # fmt: skip
def test_what_is_no_pair_of_inputs_and_labels_is_refused(given: Any) -> None:
    with pytest.raises(DataError):
        Client(net(), train=given)


class Frame:
    """An object that is an array to NumPy and has keys of its own, as a frame of pandas."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return X.double().numpy()

    def __getitem__(self, key: object) -> object:
        raise KeyError(key)


def test_what_numpy_takes_for_an_array_is_taken() -> None:
    client = Client(net(), train=(Frame(), Y))  # type: ignore[arg-type]  # as documented, not as typed
    assert torch.equal(client.train.x, X.double())


def test_gradients_of_inputs_are_left_behind() -> None:
    assert not Client(net(), train=(X.clone().requires_grad_(), Y)).train.x.requires_grad


def test_labels_of_types_that_pytorch_hardly_knows_are_taken() -> None:
    assert Client(net(), train=(X, Y.numpy().astype(np.uint16))).train.y.dtype == torch.int64


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (X.to_sparse(), Y, "inputs must be dense .* sparse_coo"),
        (X.to("meta"), Y, "inputs must be dense .* meta device"),
        (torch.tensor(1.0), Y, "single number"),
        (X, torch.tensor(1), "single number"),
        (X, Y.to_sparse(), "labels must be dense"),
        (X, Y > 0, "not true and false"),
        (np.ma.masked_less(X.numpy(), 3), Y, "masked"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(x: Any, y: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        Client(net(), train=(x, y))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (X.long(), "int64: give x.float.. if they are amounts. Ids of words are not supported yet"),
        (X.bool(), "bool"),
        (X.to(torch.uint8), "bytes are divided by 255"),
        (X.to(torch.complex64), "complex"),
        (X.double() * 1e300, "too large for float32"),
        (X / 0, "not finite"),
    ],
)
def test_inputs_that_networks_cannot_take_as_they_are_are_refused(x: Tensor, said: str) -> None:
    with pytest.raises(DataError, match=f"client 1 .*{said}"):
        Federation("standalone", [Client(net(), (X, Y)), Client(net(), (x, Y))], device="cpu")
    federation = Federation("standalone", [Client(net(), (X, Y))], device="cpu")
    with pytest.raises(DataError, match=f"the inputs to predict .*{said}"):
        federation.predict(0, x)


@pytest.mark.parametrize("rows", [[6], [-1], [0.5], [[0]]])
def test_rows_that_are_not_there_are_refused(rows: Any) -> None:
    with pytest.raises(DataError, match="rows"):
        Client(net(), train=Examples(X, Y, rows=torch.tensor(rows)))


def test_public_samples_are_named() -> None:
    with pytest.raises(DataError, match="the public inputs hold numbers that are not finite"):
        Federation("kt-pfl", [Client(net(), (X, Y))], device="cpu", public=(X / 0, Y))


def test_no_samples() -> None:
    assert len(as_examples(None)) == 0


# ---- models ---------------------------------------------------------------------------------------------------------


def test_a_model_is_copied_when_the_client_is_made() -> None:
    model = net()
    kept = model[0].weight.detach().clone()  # type: ignore[index]
    client = Client(model, (X, Y))
    with torch.no_grad():
        model[0].weight.zero_()  # type: ignore[index]
    built = client.architecture.build()
    assert torch.equal(built[0].weight, kept)  # type: ignore[index]
    with torch.no_grad():
        built[0].weight.zero_()  # type: ignore[index]
    assert torch.equal(client.architecture.build()[0].weight, kept)  # type: ignore[index]


def test_architectures_are_told_apart_by_their_layers_not_their_weights() -> None:
    assert Client(net(), (X, Y)).architecture.key == Client(net(), (X, Y)).architecture.key
    other = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3))
    assert Client(net(), (X, Y)).architecture.key != Client(other, (X, Y)).architecture.key


def test_an_architecture_is_taken_as_it_is() -> None:
    architecture = Architecture("mine", net)
    assert Client(architecture, (X, Y)).architecture is architecture


@pytest.mark.parametrize("model", ["cnn-1", nn.Linear, None, 3])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(ModelError, match=r"must be an nn\.Module"):
        Client(model, (X, Y))


def test_a_model_with_frozen_weights_is_refused() -> None:
    model = net()
    model[0].requires_grad_(False)  # type: ignore[index]
    with pytest.raises(ModelError, match=r"weight '0\.weight' of the model is frozen"):
        Client(model, (X, Y))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: net().to("meta"), "on the meta device"),
        (lambda: nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3)), "run the model once on a batch"),
    ],
)
def test_a_model_without_numbers_is_refused(make: Callable[[], nn.Module], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        Client(make(), (X, Y))


class Odd(nn.Module):
    """Does something between its two layers."""

    def __init__(self, between: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.between = nn.Linear(2, 4), nn.Linear(4, 3), between
        self.calls, self.pad = 0, 0.0

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.b(self.between(self, self.a(x)))
        return output


DRAWN = itertools.count()
"""Stands for random numbers that PyTorch knows nothing of."""


def _counted(model: Any, h: Tensor) -> Tensor:
    model.calls += 1
    return h


@pytest.mark.parametrize(
    ("between", "said"),
    [
        (lambda _, h: h.detach(), "no gradient reaches the weights before its last layer"),
        (lambda _, h: torch.from_numpy(h.detach().numpy()), "no gradient reaches"),
        (_counted, "changes its attribute 'calls' when it is called"),
        (lambda model, h: h + next(DRAWN) if model.training else h, "something else"),
    ],
)
def test_a_model_that_cannot_learn_or_be_repeated_is_refused(between: Any, said: str) -> None:
    with pytest.raises(ModelError, match=f"client 0: .*{said}"):
        Federation("standalone", [Client(Odd(between), (X, Y))], device="cpu")


def test_an_attribute_that_is_no_number_stays_as_it_is() -> None:
    model = Odd(lambda _, h: h)
    model.pad = float("nan")
    Federation("standalone", [Client(model, (X, Y))], device="cpu")


def test_a_model_of_one_output_is_refused() -> None:
    with pytest.raises(ModelError, match="one output per class, two for a question of yes or no"):
        Federation("standalone", [Client(nn.Linear(2, 1), (X, Y * 0))], device="cpu")


class Locked(nn.Module):
    """Cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.fc = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.fc(x)
        return output


def test_a_model_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(ModelError, match="cannot be copied"):
        Client(Locked(), (X, Y))


# ---- alone ----------------------------------------------------------------------------------------------------------


def test_it_says_what_it_is() -> None:
    assert repr(Client(net(), (X, Y), test=(X[:2], Y[:2]))) == "Client(train=6, test=2)"
    assert repr(Client(net(), (X, Y)).numbered(3)) == "Client(id=3, train=6, test=0)"


def test_a_numbered_copy_shares_the_data() -> None:
    client = Client(net(), (X, Y))
    copied = client.numbered(5)
    assert (copied.id, client.id) == (5, -1)
    assert copied.train is client.train
    assert copied.architecture is client.architecture


class Sequences(nn.Module):
    """Reads a sequence, and answers by its last state."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.reads = kind(3, 4, batch_first=True)
        self.answers = torch.nn.utils.weight_norm(nn.Linear(4, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.answers(self.reads(x)[0][:, -1]))
        return output


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_equal_recurrent_networks_are_averaged(kind: Callable[..., nn.Module], engine: str) -> None:
    x, y = torch.randn(12, 5, 3), torch.arange(12) % 2
    clients = [Client(Sequences(kind), (x, y), (x, y)) for _ in range(2)]
    assert clients[0].architecture.key == clients[1].architecture.key
    federation = Federation("fedavg", clients, device="cpu", engine=engine, epochs=1)
    history = federation.run(2)
    assert history.summary["all_last"] is not None
    held = [federation.networks(number)["body"].state_dict() for number in range(2)]
    assert all(torch.isfinite(tensor).all() for state in held for tensor in state.values())
    assert federation.logits(0, x).shape == (12, 2)


# ---- federations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [None, "abc", 3, [(X, Y)], {"a": 1}, [None], Client, iter([None])])
def test_what_are_no_clients_is_refused(clients: Any) -> None:
    with pytest.raises(ConfigError, match="clients: "):
        Federation("standalone", clients)


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithm": None}, {"algorithm": 3}, {"algorithm": int}, {"transform": len}, {"transform": "release"},
        {"out": 5}, {"out": "a\0b"}, {"out": ""}, {"seed": True}, {"fraction": True}, {"epochs": True},
        {"betas": (True, 0.9)}, {"epochs": 10**30}, {"config": 3},
    ],
    ids=str,
)  # fmt: skip
def test_arguments_of_a_wrong_type_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Federation(**{"algorithm": "standalone", "clients": [Client(net(), (X, Y))], **wrong})


def test_a_setting_by_the_name_that_papers_use() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'lamda': did you mean 'pull' \(weight of the distance"):
        Federation("fedproto", [Client(net(), (X, Y))], lamda=1)
