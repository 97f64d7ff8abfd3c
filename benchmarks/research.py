"""A round as research code usually runs it: the yardstick for Potluck's engines.

One client after another, each with a DataLoader over its own images, every image transformed by itself; networks that
are meant to be frozen are differentiated all the same, nothing is laid out for the processor, and each ReLU stands
before its pooling. Every client is tested on its own test images after it has trained, as the code released with pFedES
and FedGH does; engines look at its validation images, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.per_image import release_alone, to_tensor
from potluck.models import same_size_extractor
from potluck.models.cnn import CNN

_SHAPE, _CLASSES = (3, 32, 32), 10


class PerImage(Dataset[tuple[Tensor, int]]):
    """Images of one client, transformed one at a time."""

    def __init__(self, x: Tensor, y: Tensor, transform: Callable[[Image.Image], Tensor]) -> None:
        self._transform = transform
        self._pictures = x.permute(0, 2, 3, 1).contiguous().numpy()
        self._labels = y.tolist()

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One transformed image, and its label."""
        return self._transform(Image.fromarray(self._pictures[index])), self._labels[index]


class Network(nn.Module):
    """One of CNN-1 to CNN-5, its forward pass as the papers have it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.layers = CNN(int(name.removeprefix("cnn-")), _SHAPE, _CLASSES)

    def body(self, x: Tensor) -> Tensor:
        """All layers but the last."""
        layers = self.layers
        x = F.max_pool2d(F.relu(layers.conv1(x)), 2)
        x = F.max_pool2d(F.relu(layers.conv2(x)), 2)
        return F.relu(layers.fc2(F.relu(layers.fc1(x.flatten(1)))))

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of a batch of images."""
        logits: Tensor = self.layers.fc3(self.body(x))
        return logits


@dataclass
class ResearchClient:
    """What a client of a research script has."""

    loader: DataLoader[tuple[Tensor, int]]
    test: DataLoader[tuple[Tensor, int]]
    model: Network


def clients(
    train: Sequence[tuple[Tensor, Tensor]], test: Sequence[tuple[Tensor, Tensor]], models: Sequence[str], batch: int
) -> list[ResearchClient]:
    """A client for each of some images and labels to train on, and to be tested on."""
    made = []
    for own, unseen, model in zip(train, test, models, strict=True):
        loader = DataLoader(PerImage(*own, release_alone), batch_size=batch, shuffle=True)
        tests = DataLoader(PerImage(*unseen, to_tensor), batch_size=batch)
        made.append(ResearchClient(loader, tests, Network(model)))
    return made


def _test(client: ResearchClient) -> float:
    client.model.eval()
    with torch.no_grad():
        accuracies = [float((client.model(x).argmax(1) == y).float().mean()) for x, y in client.test]
    client.model.train()
    return sum(accuracies) / len(accuracies)


def _optimizer(*modules: nn.Module) -> torch.optim.Optimizer:
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-3)


def _epochs(client: ResearchClient, count: int, loss: Callable[[Tensor, Tensor], Tensor], *learning: nn.Module) -> None:
    optimizer = _optimizer(*learning)
    for _ in range(count):
        for x, y in client.loader:
            optimizer.zero_grad()
            value = loss(x, y)
            value.backward()  # type: ignore[no-untyped-call]
            for module in learning:
                torch.nn.utils.clip_grad_norm_(module.parameters(), 50)
            optimizer.step()


def pfedes(members: Sequence[ResearchClient], epochs: int, extractor_epochs: int, mu: float = 0.1) -> None:
    """A round of pFedES."""
    shared = same_size_extractor(_SHAPE)

    def train(client: ResearchClient) -> dict[str, Tensor]:
        model, extractor = client.model, copy.deepcopy(shared)

        def model_loss(x: Tensor, y: Tensor) -> Tensor:
            return mu * F.cross_entropy(model(extractor(x)), y) + (1 - mu) * F.cross_entropy(model(x), y)

        def extractor_loss(x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(model(extractor(x)), y)

        _epochs(client, epochs, model_loss, model)
        _epochs(client, extractor_epochs, extractor_loss, extractor)
        _test(client)
        return extractor.state_dict()

    trained = [train(client) for client in members]
    shared.load_state_dict({name: torch.stack([one[name] for one in trained]).mean(0) for name in trained[0]})


def fedproto(members: Sequence[ResearchClient], epochs: int, pull: float = 1.0) -> None:
    """A round of FedProto, with prototypes of an earlier one."""
    prototypes = torch.rand(_CLASSES, 500)

    def train(client: ResearchClient) -> None:
        model = client.model

        def loss(x: Tensor, y: Tensor) -> Tensor:
            representation = model.body(x)
            logits = model.layers.fc3(representation)
            return F.cross_entropy(logits, y) + pull * F.mse_loss(representation, prototypes[y])

        _epochs(client, epochs, loss, model)
        with torch.no_grad():
            for x, _ in client.loader:
                model.body(x).mean(0)
        _test(client)

    for client in members:
        train(client)


def fml(members: Sequence[ResearchClient], epochs: int) -> None:
    """A round of FML."""
    meme = Network("cnn-5")

    def train(client: ResearchClient) -> None:
        model, small = client.model, copy.deepcopy(meme)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            own, other = model(x), small(x)
            total = F.cross_entropy(own, y) + F.cross_entropy(other, y)
            for student, teacher in ((own, other), (other, own)):
                soft = teacher.detach().softmax(1)
                total = total + F.kl_div(student.log_softmax(1), soft, reduction="batchmean")
            return total / 2

        _epochs(client, epochs, loss, model, small)
        _test(client)

    for client in members:
        train(client)
