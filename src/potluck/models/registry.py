"""The networks that can be asked for by name.

A new network is one file in this folder and one line in ``_BUILDERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from torch import nn

from potluck.errors import ModelError, nearest
from potluck.models import cnn
from potluck.models.alexnet import alexnet
from potluck.models.classifier import REPRESENTATION
from potluck.models.cnn import CNN
from potluck.models.fedavg import FedAvgCNN
from potluck.models.fedproto import FedProtoCNN, FedProtoResNet
from potluck.models.googlenet import googlenet
from potluck.models.mlp import MLP
from potluck.models.resnet import resnet18
from potluck.models.shufflenet import shufflenet_v2

# What makes a network for inputs of a shape and a number of classes; some can be asked for a width besides.
_Builder = Callable[..., nn.Module]

_CNNS: dict[str, _Builder] = {f"cnn-{number}": partial(CNN, number) for number in range(1, 6)}
_CLASSIFIERS: dict[str, _Builder] = {
    "alexnet": alexnet,
    "googlenet": googlenet,
    "resnet-18": resnet18,
    "shufflenet-v2": shufflenet_v2,
}
_WIDTHS = {**dict.fromkeys(_CLASSIFIERS, REPRESENTATION), **dict.fromkeys(_CNNS, cnn.REPRESENTATION)}
"""The usual width of those whose representation can be asked to be of another: ``resnet-18@500``."""

_BUILDERS: dict[str, _Builder] = {
    **_CNNS,
    **{f"fedproto-cnn-{number}": partial(FedProtoCNN, number) for number in range(1, 4)},
    **{f"fedproto-resnet-{number}": partial(FedProtoResNet, number) for number in range(1, 3)},
    "fedavg-cnn": FedAvgCNN,
    **_CLASSIFIERS,
}

MLP_EXAMPLES = ("mlp-64", "mlp-128-64")
"""Two of the many: the numbers are the widths of the hidden layers."""

_MLP = re.compile(r"mlp(?P<hidden>(-[0-9]+)+)")
_WIDEST = 1 << 14  # wider than any use of it, and narrow enough to fit into memory


def names() -> list[str]:
    """Names of all networks that :func:`build` knows, but for MLPs, of which there are too many to list.

    >>> names()[:6]
    ['alexnet', 'cnn-1', 'cnn-2', 'cnn-3', 'cnn-4', 'cnn-5']
    """
    return sorted(_BUILDERS)


def build(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Make the network called ``name``, with initial weights drawn from PyTorch's generator.

    Args:
        name: One of :func:`names`, ``name@width`` for those whose representation has a width to choose, or ``mlp-``
            and the widths of the hidden layers, as in ``mlp-128-64``.
        shape: Shape of one input, without the batch.
        classes: How many class scores it gives.

    >>> build("cnn-5", (1, 28, 28), 10).fc3
    Linear(in_features=500, out_features=10, bias=True)
    >>> build("alexnet@500", (3, 32, 32), 10).head
    Linear(in_features=500, out_features=10, bias=True)
    """
    base, _, width = known(name).partition("@")
    if width:
        return _BUILDERS[base](shape, classes, int(width))
    if base not in _BUILDERS:
        return MLP([int(number) for number in base.split("-")[1:]], shape, classes)
    return _BUILDERS[base](shape, classes)


def known(name: str) -> str:
    """The one name by which a network is known; a ModelError if there is none.

    The papers write "CNN-1", so upper case will do, and the usual width may be said.

    >>> known("ResNet-18@512"), known("resnet-18@500"), known("mlp-064")
    ('resnet-18', 'resnet-18@500', 'mlp-64')
    """
    base, at, width = name.lower().partition("@")
    if _MLP.fullmatch(base) and not at:
        return "-".join(["mlp", *(str(_width(number, name)) for number in base.split("-")[1:])])
    if base not in _BUILDERS:
        raise ModelError(nearest(name, [*_BUILDERS, *MLP_EXAMPLES], "model"))
    if not at:
        return base
    if base not in _WIDTHS:
        raise ModelError(f"model {name!r}: {base} has no width to choose; these have: {', '.join(_WIDTHS)}.")
    wide = _width(width, name)
    return base if wide == _WIDTHS[base] else f"{base}@{wide}"


def _width(number: str, name: str) -> int:
    # Its length first: a number of thousands of digits is none that Python reads.
    width = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0
    if not 1 <= width <= _WIDEST:
        raise ModelError(f"model {name!r}: {number[:20]!r} is no width. Give a whole number from 1 to {_WIDEST}.")
    return width
