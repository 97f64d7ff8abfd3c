"""Who may take part: what clients must have in common for an algorithm to work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms import Algorithm, Need, names
from potluck.algorithms import algorithm as algorithm_of
from potluck.client import Architecture, Client, Samples, as_examples
from potluck.contract import Task
from potluck.data.examples import Examples, check_inputs
from potluck.data.splits import hold_out
from potluck.data.transform import Transform
from potluck.errors import AlgorithmError, ConfigError, DataError, ModelError, nearest
from potluck.models import output_width, split
from potluck.models._trial import check_gradients, check_repeatable
from potluck.run.inputs import COUNTS, NETWORKS, SAMPLES, Inputs, digest, text_digest


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
    if classes < 2:
        raise ModelError(
            "the models give one output, by which every prediction is the same: give one output per class, two for a "
            "question of yes or no."
        )
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
                if isinstance(model, nn.ModuleDict):
                    model = nn.Sequential(parts["body"], parts["head"])
                check_repeatable(model, shape)
                check_gradients(parts["body"], parts["head"], shape)
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
    for need in sorted(set(algorithm.needs) - set(get_args(Need))):
        raise AlgorithmError(f"{algorithm.title}: {nearest(str(need), get_args(Need), 'need')}")
    if "equal models" in algorithm.needs and architectures > 1:
        raise ConfigError(
            f"{algorithm.title} needs one architecture on every client, and these hold {architectures}: give all "
            f"the same (copies of one model, or by name --models cnn-1), or use a method for unlike models: "
            f"{_without('equal models')}."
        )
    if "equal width" in algorithm.needs and len(widths) > 1:
        raise ConfigError(
            f"{algorithm.title} needs representations of one width on every client, and these have "
            f"{', '.join(map(str, sorted(widths)))}: end every body in a layer of the same width, so that "
            f"all last nn.Linear have the same in_features (by name: --models resnet-18@500,cnn-1..5), or use a method "
            f"that takes any: {_without('equal models', 'equal width')}."
        )


def _without(*needs: Need) -> str:
    return ", ".join(name for name in names() if not algorithm_of(name).needs & set(needs))


def _check_samples(clients: Sequence[Client], classes: int) -> None:
    seen: set[tuple[int, int]] = set()
    for number, client in enumerate(clients):
        for examples in (client.train, client.validation, client.test, client.holdout):
            # The whole source, once for all of its clients.
            x, y = examples.whole_x, examples.whole_y
            if (id(x), id(y)) in seen or len(y) == 0:
                continue
            seen.add((id(x), id(y)))
            check_inputs(x, f"the inputs of client {number}")
            if int(y.min()) < 0 or int(y.max()) >= classes:
                raise DataError(
                    f"client {number} has labels from {int(y.min())} to {int(y.max())}, and the models {classes} "
                    "outputs: labels count from 0."
                )
            check_finite(x, f"the inputs of client {number}")


def check_finite(x: Tensor, whose: str) -> None:
    """Refuse inputs with numbers that are not finite, or would not be in the type that networks compute in."""
    if not x.is_floating_point() or x.numel() == 0:
        return
    if not bool(torch.isfinite(x).all()):
        raise DataError(f"{whose} hold numbers that are not finite (NaN or infinity): find and replace them first.")
    if x.dtype == torch.float64 and float(x.abs().max()) > torch.finfo(torch.float32).max:
        raise DataError(f"{whose} hold numbers up to {float(x.abs().max()):.3g}, too large for float32: scale them.")


def inputs(clients: Sequence[Client], public: Examples | None, transform: Transform) -> Inputs:
    """Digests of what a run begins with: samples, models with their initial weights, preparation of inputs."""
    common = {"preparation of inputs": text_digest(repr(transform))}
    # Clients that hold rows of a data set hold them of one and the same, in memory once.
    sources = {id(part): part for client in clients for part in _sources(client)}
    if sources:
        common["data set"] = digest(*sources.values())
    if public is not None:
        common |= {"public inputs": digest(public.x), "public labels": digest(public.y)}
    columns: dict[str, list[str]] = {name: [] for name in (*NETWORKS, *SAMPLES, COUNTS)}
    weights: dict[int, str] = {}
    for client in clients:
        architecture = client.architecture
        if id(architecture) not in weights:
            weights[id(architecture)] = _weights(architecture)
        columns["architecture"].append(text_digest(architecture.key))
        columns["initial weights"].append(weights[id(architecture)])
        pools = (client.train, client.validation, client.test, client.holdout)
        parts = [part for pool in pools for part in ((pool.x, pool.y) if len(pool) else (None, None))]
        for name, part in zip(SAMPLES, parts, strict=True):
            columns[name].append("" if part is None else digest(part))
        columns[COUNTS].append(str(len(client.train) + len(client.holdout)))
    return Inputs(common, columns)


def _sources(client: Client) -> list[Tensor]:
    """The inputs and labels of the data set that a client's training samples are rows of."""
    return [] if client.train.rows is None else [client.train.whole_x, client.train.whole_y]


def _weights(architecture: Architecture) -> str:
    if architecture.drawn is not None:
        return text_digest(architecture.drawn)
    with draws.initial_weights(0):
        model = architecture.build()
    tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    # A state_dict lacks buffers that are not persistent. They come last: the digests of other models stay the same.
    tensors |= {name: value for name, value in model.named_buffers(remove_duplicate=False) if name not in tensors}
    return text_digest(" ".join([*tensors, digest(*tensors.values())]))


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
    check_inputs(examples.x, "the public inputs")
    check_finite(examples.x, "the public inputs")
    y = examples.y
    if int(y.min()) < 0 or int(y.max()) >= task.classes:
        raise DataError(f"the labels of the public data are not all from 0 to {task.classes - 1}.")
    return examples


def admit(clients: Sequence[Client], algorithm: Algorithm, seed: int, device: torch.device) -> list[Client]:
    """The clients as the federation works with them: numbered, holdout set aside, data on the device."""
    moved: dict[int, Tensor] = {}
    members = []
    share = algorithm.holdout_share
    if not isinstance(share, int | float) or not 0 <= share < 1:
        raise AlgorithmError(f"{algorithm.title}: holdout_share is {share!r}, and not a share from 0 up to 1.")
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
