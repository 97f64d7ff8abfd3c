"""A round as research code usually runs it: the yardstick for Potluck's engines.

One client after another, each with a DataLoader over its own images, every image transformed by itself; networks that
are meant to be frozen are differentiated all the same, and nothing is laid out for the processor.
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

from benchmarks.per_image import release_alone
from potluck.models import build, same_size_extractor, split

_SHAPE, _CLASSES = (3, 32, 32), 10


class PerImage(Dataset[tuple[Tensor, int]]):
    """Images of one client, transformed one at a time."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self._pictures = x.permute(0, 2, 3, 1).contiguous().numpy()
        self._labels = y.tolist()

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One transformed image, and its label."""
        return release_alone(Image.fromarray(self._pictures[index])), self._labels[index]


@dataclass
class ResearchClient:
    """What a client of a research script has."""

    loader: DataLoader[tuple[Tensor, int]]
    model: nn.Module


def clients(data: Sequence[tuple[Tensor, Tensor]], models: Sequence[str], batch: int) -> list[ResearchClient]:
    """A client for each of some images and labels."""
    made = []
    for number, (x, y) in enumerate(data):
        loader = DataLoader(PerImage(x, y), batch_size=batch, shuffle=True)
        made.append(ResearchClient(loader, build(models[number % len(models)], _SHAPE, _CLASSES)))
    return made


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
        return extractor.state_dict()

    trained = [train(client) for client in members]
    shared.load_state_dict({name: torch.stack([one[name] for one in trained]).mean(0) for name in trained[0]})


def fedproto(members: Sequence[ResearchClient], epochs: int, pull: float = 1.0) -> None:
    """A round of FedProto, with prototypes of an earlier one."""
    prototypes = torch.rand(_CLASSES, 500)

    def train(client: ResearchClient) -> None:
        parts = split(client.model, _SHAPE)
        body, head = parts["body"], parts["head"]

        def loss(x: Tensor, y: Tensor) -> Tensor:
            representation = body(x)
            return F.cross_entropy(head(representation), y) + pull * F.mse_loss(representation, prototypes[y])

        _epochs(client, epochs, loss, body, head)
        with torch.no_grad():
            for x, _ in client.loader:
                body(x).mean(0)

    for client in members:
        train(client)


def fml(members: Sequence[ResearchClient], epochs: int) -> None:
    """A round of FML."""
    meme = build("cnn-5", _SHAPE, _CLASSES)

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

    for client in members:
        train(client)
