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


def check_repeatable(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Raise a ModelError if a model remembers, outside of its weights and buffers, how often it was called.

    Clients of one architecture share a module, and a run that goes on has only what a state holds.
    """
    x = made_up_batch(model, shape)
    with generators_kept(x):
        model = copied(model)
        outputs_of(model, x, training=False)  # what is made in the first call may stay as it is
        before = _numbers(model)
        first, second = (outputs_of(model, x, training=False) for _ in range(2))
        # Of copies: in training a model may change its buffers, which are kept.
        learning = [outputs_of(copied(model), x, training=True) for _ in range(2)]
        outputs_of(model, x, training=True)
    changed = [name for name, value in _numbers(model).items() if name in before and before[name] != value]
    if changed:
        raise ModelError(
            f"the model changes its attribute {changed[0]!r} when it is called, and Potluck cannot keep that for each "
            "client: make it a buffer (register_buffer), or leave it out."
        )
    if any(bool(output.isnan().any()) for output in (first, *learning)):
        raise ModelError("the model gives NaN for ordinary inputs, with the weights that it comes with.")
    for one, other in ((first, second), learning):
        if not torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True):
            raise ModelError(
                "the model gives something else each time for the same inputs: what it remembers between calls must "
                "be a buffer that evaluation does not change, and what it draws must be dropout."
            )


def _numbers(model: nn.Module) -> dict[str, str]:
    """Plain attributes of all parts of a model, by name, as text: a NaN equals no NaN."""
    return {
        f"{path}.{name}".removeprefix("."): repr(value)
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, int | float | str) and name != "training"
    }


def check_gradients(body: nn.Module, head: nn.Module, shape: tuple[int, ...]) -> None:
    """Raise a ModelError if no gradient reaches the weights of the body, so that they could not learn."""
    x = made_up_batch(body, shape)
    with generators_kept(x):
        body, head = copied(body).train(), copied(head).train()
        weights = list(body.parameters())
        torch.default_generator.manual_seed(0)
        found: tuple[Tensor | None, ...] = (None,)
        try:
            with torch.enable_grad():
                output = head(body(x))
                if weights and output.requires_grad:
                    found = torch.autograd.grad(output.sum(), weights, allow_unused=True)
        except Exception as error:  # whatever it may raise where gradients are recorded
            raise ModelError(f"the model has no gradient: {_first_line(error)}") from error
    if weights and all(gradient is None for gradient in found):
        raise ModelError(
            "no gradient reaches the weights before its last layer, so that they cannot learn: remove what detaches "
            "them (detach(), torch.no_grad(), a way through NumPy). A body that is to stay as it is cannot be given "
            "yet: give what it makes of the samples as inputs instead."
        )


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
