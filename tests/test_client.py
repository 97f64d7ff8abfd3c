"""What a user gives: a model and samples, as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from potluck.client import Architecture, Client, as_examples, as_tensor
from potluck.data.examples import Examples
from potluck.errors import DataError, ModelError
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
