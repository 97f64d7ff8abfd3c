"""Try a model on a small made-up batch without leaving a trace: on a copy, with the random generators put back."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from potluck.errors import ModelError
from potluck.models.copying import copy_of

_BATCH = 4  # more than one, so that batch normalisation can train on it


def made_up_batch(model: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """Make a batch of inputs, of the model's number type and on its device."""
    if isinstance(model, torch.jit.ScriptModule):
        raise ModelError("a TorchScript model cannot be taken apart: give the nn.Module that it was made from.")
    tensors = [*model.parameters(), *model.buffers()]
    if any(is_lazy(tensor) for tensor in tensors):
        raise ModelError("the model has lazy layers without weights: run it once on a batch before giving it here.")
    floating = next((tensor for tensor in tensors if tensor.is_floating_point()), torch.empty(0))
    return torch.randn(_BATCH, *shape, generator=torch.Generator().manual_seed(0)).to(floating)


@contextmanager
def generators_kept(x: Tensor) -> Iterator[None]:
    """Put the global random generators back after use."""
    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        yield


def copied(model: nn.Module) -> nn.Module:
    """Copy a model, or say why that cannot be done."""
    try:
        return copy_of(model)
    except Exception as error:
        raise ModelError(f"the model cannot be copied: copy.deepcopy ends in {_first_line(error)}") from error


def outputs_of(model: nn.Module, x: Tensor, training: bool, called: str = "the model") -> Tensor:
    """Run a model, which may change by it: one vector per input, and the same dropout each time.

    Use it on a copy, within :func:`generators_kept`.
    """
    try:
        inspect.signature(model.forward).bind(x)
    except TypeError as error:
        raise ModelError(f"{called} must take one tensor, a batch of inputs, and nothing else ({error}).") from error
    # Not torch.manual_seed: it reseeds the generators of all devices, also those that are not put back afterwards.
    torch.default_generator.manual_seed(0)
    if x.is_cuda:
        torch.cuda.default_generators[x.device.index].manual_seed(0)
    mode = "in training" if training else "in evaluation"
    try:
        with torch.no_grad():
            output = model.train(training)(x)
    except Exception as error:
        raise ModelError(
            f"{called} does not run {mode} on inputs of shape {list(x.shape[1:])} "
            f"(tried: a batch of shape {list(x.shape)}): {_first_line(error)}"
        ) from error
    if not isinstance(output, Tensor):
        raise ModelError(f"{called} must give one tensor, not a {type(output).__name__} as it does {mode}.")
    if output.dim() != 2 or len(output) != len(x):
        raise ModelError(
            f"{called} must give one vector per input: a batch of shape {list(x.shape)} gave {list(output.shape)}."
        )
    return output


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
