"""The networks that can be asked for by name: how large they are, and what they cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Group, RenderableType
from rich.markup import escape
from torch import nn

from potluck import models
from potluck.data import sources
from potluck.errors import ConfigError, ModelError
from potluck.metrics.flops import predicting_flops
from potluck.report.format import operations
from potluck.report.tables import plain_table

_SHAPE, _CLASSES = (3, 32, 32), 10  # of CIFAR-10
_LARGEST = 10_000  # of one dimension: beyond it, numbers of weights no longer fit into 64 bits


@dataclass(frozen=True)
class ModelSize:
    """How large a network is.

    Attributes:
        name: What it is called.
        parameters: How many weights it learns.
        representation: How many numbers its body gives for its head.
        flops: Operations of predicting one sample, 2 per multiply-add.
        bytes: Of its weights in float32.
    """

    name: str
    parameters: int
    representation: int
    flops: int
    bytes: int


@dataclass(frozen=True)
class Overview:
    """Networks for one kind of inputs, and those that cannot take them, each with the reason."""

    shape: tuple[int, ...]
    classes: int
    models: list[ModelSize]
    unfit: dict[str, str]
    complete: bool

    def plain(self) -> dict[str, Any]:
        """The same as plain values."""
        rows = [asdict(row) for row in self.models]
        return {"version": 1, "shape": list(self.shape), "classes": self.classes, "models": rows, "unfit": self.unfit}


def overview(
    spec: str | None = None,
    shape: str | None = None,
    classes: int | None = None,
    data: str | None = None,
    data_dir: str | Path | None = None,
) -> Overview:
    """Look at networks; nothing is trained, and no weights are made.

    Args:
        spec: Names, as in the setting ``models`` of a run; all networks without.
        shape: Of one input, with commas, as in ``3,32,32``.
        classes: How many there are.
        data: Data set whose inputs and classes are meant, instead of ``shape`` and ``classes``.
        data_dir: Folder in which data sets lie.

    >>> overview("cnn-5").models
    [ModelSize(name='cnn-5', parameters=670058, representation=500, flops=5751600, bytes=2680232)]
    """
    inputs, outputs = inputs_of(shape, classes, data, data_dir)
    if spec is not None:
        # Whoever names a network wants to know why it does not fit.
        names = dict.fromkeys(models.assignment(spec))
        return Overview(inputs, outputs, [measure(name, inputs, outputs) for name in names], {}, complete=False)
    rows, unfit = [], {}
    for name in [*models.names(), *models.MLP_EXAMPLES]:
        try:
            rows.append(measure(name, inputs, outputs))
        except ModelError as error:
            unfit[name] = str(error)
    if not rows:
        raise ModelError(f"no network can take inputs of shape {list(inputs)} with {outputs} classes.")
    return Overview(inputs, outputs, rows, unfit, complete=True)


def inputs_of(
    shape: str | None, classes: int | None, data: str | None, data_dir: str | Path | None
) -> tuple[tuple[int, ...], int]:
    """The shape of one input and the number of classes: as given, of a data set, or else CIFAR-10's."""
    if data is None:
        return _SHAPE if shape is None else parse_shape(shape), _CLASSES if classes is None else classes
    if shape is not None or classes is not None:
        raise ConfigError(
            "a data set says itself what shape and classes it has: give --data, or --shape and --classes."
        )
    source = sources.load(data, data_dir)
    return source.shape, source.classes


def measure(name: str, shape: tuple[int, ...], classes: int) -> ModelSize:
    """Find out how large a network is, without making its weights."""
    with torch.device("meta"):
        model = models.build(name, shape, classes)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    # Of every network with a name, the linear layer that is registered last is the head.
    head = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]
    return ModelSize(name, parameters, head.in_features, predicting_flops(model, shape), 4 * parameters)


def parse_shape(text: str) -> tuple[int, ...]:
    """The shape of one input.

    >>> parse_shape("3,32,32"), parse_shape("20")
    ((3, 32, 32), (20,))
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ConfigError(
            f"--shape {text!r}: give up to three whole numbers with commas, as in 3,32,32 for images or 20 for rows."
        )
    shape = tuple(int(part) for part in parts)
    if not all(1 <= side <= _LARGEST for side in shape):
        raise ConfigError(f"--shape {text!r}: every number must be from 1 to {_LARGEST}.")
    return shape


def model_table(found: Overview) -> RenderableType:
    """The networks side by side."""
    table = plain_table(f"For inputs of shape {' x '.join(map(str, found.shape))} and {_classes(found.classes)}")
    table.add_column("network", overflow="fold", min_width=12)
    for heading in ("parameters", "represen-\ntation", "FLOP", "MiB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found.models:
        table.add_row(
            escape(row.name),
            f"{row.parameters:,}",
            f"{row.representation}",
            operations(row.flops),
            f"{row.bytes / 2**20:,.2f}",
        )
    notes = ["FLOP: predicting one sample, 2 per multiply-add. MiB: weights in float32."]
    if found.unfit:
        notes.append(f"Not for such inputs: {', '.join(found.unfit)}.")
    if found.complete:
        notes.append("Any hidden widths make an MLP: mlp-128-64. Other representations: resnet-18@500.")
    return Group(table, *notes)


def _classes(number: int) -> str:
    return f"{number} class" if number == 1 else f"{number} classes"
