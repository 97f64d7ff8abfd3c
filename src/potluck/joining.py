"""Who may take part: what clients must have in common for an algorithm to work."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms import Algorithm, Need, names
from potluck.algorithms import algorithm as algorithm_of
from potluck.client import Client, Samples, as_examples
from potluck.contract import Task
from potluck.data.examples import Examples
from potluck.data.splits import hold_out
from potluck.engines import Setting
from potluck.errors import ConfigError, DataError, ModelError
from potluck.models import output_width, split


def common_task(clients: Sequence[Client], algorithm: Algorithm) -> Task:
    """The task that all clients share; an error that names the client where they do not fit together."""
    if len({id(client) for client in clients}) < len(clients):
        raise ConfigError("the same client is given twice: make one Client for each participant.")
    shape = clients[0].train.shape
    for number, client in enumerate(clients):
        if len(client.train) == 0:
            raise DataError(f"client {number} has no training samples.")
        for name in ("train", "validation", "test", "holdout"):
            examples: Examples = getattr(client, name)
            if len(examples) and examples.shape != shape:
                raise DataError(
                    f"client {number} has {name} inputs of shape {examples.shape}, client 0 learns from "
                    f"inputs of {shape}: all clients learn one task."
                )
    sizes = _model_sizes(clients, shape, algorithm)
    outputs = {classes for classes, _ in sizes.values()}
    if len(outputs) > 1:
        raise ModelError(
            f"the models have {' and '.join(map(str, sorted(outputs)))} outputs: all clients learn one task."
        )
    (classes,) = outputs
    _check_samples(clients, classes)
    widths = {width for _, width in sizes.values()}
    _check_needs(algorithm, len(sizes), widths)
    # Where all models are equal, the first client's, with its initial weights, is the common start.
    build = clients[0].architecture.build if len(sizes) == 1 else None
    return Task(shape, classes, len(clients), width=widths.pop() if len(widths) == 1 else None, model=build)


def _model_sizes(clients: Sequence[Client], shape: tuple[int, ...], algorithm: Algorithm) -> dict[str, tuple[int, int]]:
    """Outputs and representation width of every architecture."""
    # Unlike models can share a head where all have the same: one linear layer.
    one_head = "head" in algorithm.shared and "equal models" not in algorithm.needs
    sizes: dict[str, tuple[int, int]] = {}
    for number, client in enumerate(clients):
        if client.architecture.key in sizes:
            continue
        try:
            # A model is tried out with PyTorch's own generator, which another thread may be using.
            with draws.initial_weights(0):
                model = client.architecture.build()
                parts = split(model, shape)
                if one_head:
                    _check_head(parts["head"], algorithm)
                sizes[client.architecture.key] = output_width(model, shape), output_width(parts["body"], shape)
        except ModelError as error:
            raise ModelError(f"the model of client {number}: {error}") from error
    return sizes


def _check_head(head: nn.Module, algorithm: Algorithm) -> None:
    if {path for path, _ in head.named_parameters()} != {"weight", "bias"} or not isinstance(head, nn.Linear):
        raise ModelError(
            f"{algorithm.title} shares one linear layer as the head of all models, and this one's is {head}: end it in "
            "an nn.Linear with a bias."
        )


def _check_needs(algorithm: Algorithm, architectures: int, widths: set[int]) -> None:
    if "equal models" in algorithm.needs and architectures > 1:
        raise ConfigError(
            f"{algorithm.title} needs one architecture on every client, and these hold {architectures}: give all "
            f"the same (--models cnn-1), or use a method for unlike models: {_without('equal models')}."
        )
    if "equal width" in algorithm.needs and len(widths) > 1:
        raise ConfigError(
            f"{algorithm.title} needs representations of one width on every client, and these have "
            f"{', '.join(map(str, sorted(widths)))}: end every body in a layer of the same width (by name: "
            f"--models resnet-18@500,cnn-1..5), or use a method that takes any: "
            f"{_without('equal models', 'equal width')}."
        )


def _without(*needs: Need) -> str:
    return ", ".join(name for name in names() if not algorithm_of(name).needs & set(needs))


def _check_samples(clients: Sequence[Client], classes: int) -> None:
    seen: set[int] = set()
    for number, client in enumerate(clients):
        for examples in (client.train, client.validation, client.test, client.holdout):
            # The whole source, once for all of its clients.
            x, y = examples.whole_x, examples.whole_y
            if id(y) in seen or len(y) == 0:
                continue
            seen.add(id(y))
            if int(y.min()) < 0 or int(y.max()) >= classes:
                raise DataError(
                    f"client {number} has labels from {int(y.min())} to {int(y.max())}, and the models {classes} "
                    "outputs: labels count from 0."
                )
            if x.is_floating_point() and not bool(torch.isfinite(x).all()):
                raise DataError(f"client {number} has inputs that are not finite numbers: find and mend them first.")


def digest(members: Sequence[Client], setting: Setting) -> str:
    """A short text that changes with the clients' models, labels and data sizes, and with how inputs are prepared."""
    content = hashlib.blake2b(repr((setting.transform, setting.task.shape)).encode(), digest_size=16)
    for member in members:
        content.update(member.architecture.key.encode())
        for examples in (member.train, member.validation, member.test, member.holdout):
            content.update(examples.y.cpu().numpy().tobytes() + b"|")
    return content.hexdigest()


def public_samples(public: Samples | None, algorithm: Algorithm, task: Task) -> Examples | None:
    """The samples that everybody may see, if there are any; an error if they are missing or do not fit the task."""
    if public is None:
        if "public data" in algorithm.needs:
            raise ConfigError(f"{algorithm.title} needs samples that everybody may see: give public=(inputs, labels).")
        return None
    examples = as_examples(public)
    if len(examples) == 0 or examples.shape != task.shape:
        raise DataError(
            f"the public data are {len(examples)} samples of shape {examples.shape}: give some of "
            f"{task.shape}, as the clients have."
        )
    y = examples.y
    if int(y.min()) < 0 or int(y.max()) >= task.classes:
        raise DataError(f"the labels of the public data are not all from 0 to {task.classes - 1}.")
    return examples


def admit(clients: Sequence[Client], algorithm: Algorithm, seed: int, device: torch.device) -> list[Client]:
    """The clients as the federation works with them: numbered, holdout set aside, data on the device."""
    moved: dict[int, Tensor] = {}
    members = []
    for number, client in enumerate(clients):
        member = client.numbered(number)
        if algorithm.holdout_share and not len(client.holdout):
            member.train, member.holdout = _set_aside(client.train, algorithm.holdout_share, seed, number)
        for name in ("train", "validation", "test", "holdout"):
            setattr(member, name, getattr(member, name).to(device, moved))
        members.append(member)
    return members


def _set_aside(train: Examples, share: float, seed: int, client: int) -> tuple[Examples, Examples]:
    if len(train) < 2:
        raise DataError(f"client {client} has {len(train)} training sample, too few to set a holdout share aside.")
    return hold_out(train, share, draws.fold(seed, "holdout", client))
