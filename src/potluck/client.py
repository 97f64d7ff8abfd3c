"""A client: one participant, with private data and a model of its own."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from potluck.data.examples import Examples
from potluck.errors import DataError, ModelError
from potluck.models.copying import copy_of
from potluck.models.fingerprint import fingerprint

Samples = Examples | tuple[Tensor | np.ndarray, Tensor | np.ndarray]


@dataclass(frozen=True, eq=False)
class Architecture:
    """How to make a model with its initial weights; clients of one key can share a module.

    Attributes:
        key: The same for models that differ in their weights alone.
        build: Makes the model. Every call gives the same weights.
        drawn: What the initial weights are drawn from, where that says it all; None: they are looked at themselves.
    """

    key: str
    build: Callable[[], nn.Module]
    drawn: str | None = None

    @classmethod
    def of(cls, model: nn.Module) -> Architecture:
        """The architecture of a ready-made model, which is copied now and never changed."""
        if not isinstance(model, nn.Module):
            raise ModelError(f"a client's model must be an nn.Module, not a {type(model).__name__}.")
        _refuse_without_numbers(model)
        frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
        if frozen:
            raise ModelError(
                f"the weight {frozen[0]!r} of the model is frozen (requires_grad=False), and Potluck would train it "
                "with all others: thaw it, or make it a buffer (register_buffer), which no training changes."
            )
        try:
            kept = copy_of(model)
        except Exception as error:
            raise ModelError(f"the model cannot be copied: {type(error).__name__}: {error}") from error
        return cls(fingerprint(kept), lambda: copy_of(kept))


def _refuse_without_numbers(model: nn.Module) -> None:
    """Raise if a weight of the model has no numbers yet."""
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        if is_lazy(tensor):
            raise ModelError(
                f"the weight {name!r} of the model is lazy and has no shape yet: run the model once on a batch before "
                "it is given to a client."
            )
        if tensor.device.type == "meta":
            raise ModelError(
                f"the weight {name!r} of the model is on the meta device and has no numbers: make the model on a "
                "device that has memory, such as the CPU."
            )


class Client:
    """One participant of a federation.

    Args:
        model: Its own network, any ``nn.Module`` that ends in a linear layer and returns logits. It is copied.
        train: Inputs and labels to learn from: tensors, arrays, lists, or pandas objects. Inputs are numbers with a
            fraction, or bytes of images, which are divided by 255; labels are whole numbers from 0.
        test: Inputs and labels to be judged by.
        validation: Inputs and labels to choose a round by.
        holdout: Samples for methods that need a share set aside; cut from ``train`` if not given.

    A client is only a description: it may take part in any number of federations, each of which trains networks of its
    own for it and answers with them (:meth:`potluck.Federation.predict`). What was given is there again under the same
    names, as :class:`~potluck.data.Examples`: ``client.test.x`` and
    ``client.test.y`` are this client's own test inputs and labels.
    """

    def __init__(
        self,
        model: nn.Module | Architecture,
        train: Samples,
        test: Samples | None = None,
        validation: Samples | None = None,
        holdout: Samples | None = None,
    ) -> None:
        self.architecture = model if isinstance(model, Architecture) else Architecture.of(model)
        self.train = as_examples(train)
        self.test = as_examples(test)
        self.validation = as_examples(validation)
        self.holdout = as_examples(holdout)
        self.id = -1

    def numbered(self, number: int) -> Client:
        """A copy of this client, with the same samples, as client ``number`` of a federation."""
        member = copy.copy(self)
        member.id = number
        return member

    def __repr__(self) -> str:
        number = "" if self.id < 0 else f"id={self.id}, "
        return f"Client({number}train={len(self.train)}, test={len(self.test)})"


def as_examples(samples: Samples | None) -> Examples:
    """Samples as a user gives them; ``None`` is none at all."""
    if isinstance(samples, Examples):
        _check_rows(samples)
        return samples
    if samples is None:
        return Examples(torch.empty(0), torch.empty(0, dtype=torch.int64))
    if not isinstance(samples, tuple | list) or len(samples) != 2:
        raise DataError(f"samples are a pair of inputs and labels, not a {type(samples).__name__}.")
    return Examples(as_tensor(samples[0]), as_labels(samples[1]))


def _check_rows(samples: Examples) -> None:
    """Raise if rows of a source are no rows of it."""
    rows, count = samples.rows, len(samples.whole_y)
    if rows is None or (rows.ndim == 1 and rows.numel() == 0):
        return
    if rows.ndim != 1 or rows.is_floating_point() or rows.is_complex() or rows.dtype == torch.bool:
        raise DataError(f"rows are a vector of whole numbers, not {rows.dtype} of shape {tuple(rows.shape)}.")
    if int(rows.min()) < 0 or int(rows.max()) >= count:
        raise DataError(
            f"rows from {int(rows.min())} to {int(rows.max())} are asked for, and the source has {count}, from 0 on."
        )


def as_labels(values: Tensor | np.ndarray) -> Tensor:
    """Labels as a user gives them; those of types in which PyTorch computes little become int64."""
    y = as_tensor(values)
    return y.to(torch.int64) if y.dtype in (torch.uint16, torch.uint32, torch.uint64) else y


def as_tensor(values: Tensor | np.ndarray) -> Tensor:
    """Numbers as a user gives them; copied only where PyTorch cannot use the memory as it is.

    Lists and anything that NumPy takes for an array, such as a pandas frame or series, become tensors. A gradient that
    a tensor has is left behind.
    """
    if not isinstance(values, Tensor | np.ndarray) and hasattr(values, "__array__"):
        values = _as_array(values)
    try:
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise TypeError("some of them are masked: fill them in first.")
        tensor = torch.as_tensor(
            np.require(values, requirements=["C", "W"]) if isinstance(values, np.ndarray) else values
        )
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise DataError(f"inputs and labels must be tensors or arrays of numbers: {error}") from error
    return tensor.detach() if tensor.requires_grad else tensor


def _as_array(values: object) -> np.ndarray:
    try:
        array = np.asarray(values)
    except Exception as error:  # a custom object may raise anything
        raise DataError(f"a {type(values).__name__} cannot be made an array: {error}") from error
    if array.dtype == object:
        raise DataError(f"a {type(values).__name__} holds something other than numbers: give columns of one type.")
    return array
