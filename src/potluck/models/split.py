"""Cut any classifier into ``body`` and ``head``, before its last linear layer.

The cut is tried out on a small made-up batch, on copies, before anyone trains with it: a model that cannot be cut is an
error here and not a wrong number later.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from potluck.errors import ModelError
from potluck.models._trial import copied, generators_kept, made_up_batch, outputs_of

_OR_PAIR = (
    "or give the model as two modules called `body` and `head`, where body(x) is one vector per input and model(x) is "
    "head(body(x))"
)


def split(model: nn.Module, shape: tuple[int, ...]) -> dict[str, nn.Module]:
    """Cut ``model`` into a ``body`` that gives the representation and a ``head`` that gives the class scores.

    The head is the last ``nn.Linear`` that is called, wherever it is registered; the body is a copy of the model with
    ``nn.Identity`` in its place. A model that has children called ``body`` and ``head``, where ``body`` gives one
    vector per input and the model is ``head(body(x))``, keeps these two as they are, whatever they consist of; so does
    an ``nn.ModuleDict`` with these two keys.

    Both parts are copies, with the weights of the model. The model itself, its buffers, its mode and the global random
    generator are left as they were.

    Args:
        model: takes one tensor, a batch of inputs, and gives one tensor, class scores before any softmax.
        shape: shape of one input, without the batch.

    Raises:
        ModelError: the model cannot be cut; the message says why, and what to do.

    >>> parts = split(nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3)), (8,))
    >>> parts["body"]
    Sequential(
      (0): Linear(in_features=8, out_features=5, bias=True)
      (1): ReLU()
      (2): Identity()
    )
    >>> parts["head"]
    Linear(in_features=5, out_features=3, bias=True)
    """
    if isinstance(model, nn.ModuleDict) and set(model) == {"body", "head"}:
        pair, model = model, nn.Sequential()
        for name in ("body", "head"):
            model.add_module(name, pair[name])
    x = made_up_batch(model, shape)
    with generators_kept(x):
        if _is_pair(model, x):
            whole = copied(model)
            body, head = whole.get_submodule("body"), whole.get_submodule("head")
        else:
            name = _last_linear(model, x)
            body, head = _cut(model, name)
            _check(model, name, body, x)
    _check_apart(body, head)
    return {"body": body, "head": head}


def representation_width(head: nn.Module) -> int:
    """How many numbers ``head`` takes: the width of the representation.

    >>> representation_width(nn.Linear(500, 10))
    500
    """
    for module in head.modules():
        if isinstance(module, nn.Linear):
            return module.in_features
    raise ModelError("the head has no nn.Linear that says how wide the representation is: give it one.")


def output_width(model: nn.Module, shape: tuple[int, ...]) -> int:
    """How many numbers ``model`` gives for one input of ``shape``, whatever it ends in.

    For a whole model these are its class scores; for a body, its representation.

    >>> output_width(nn.Sequential(nn.Linear(8, 5), nn.ReLU()), (8,))
    5
    """
    x = made_up_batch(model, shape)
    with generators_kept(x):
        return outputs_of(copied(model), x, training=False).shape[1]


def check_outputs(model: nn.Module, shape: tuple[int, ...], classes: int) -> None:
    """Raise a ModelError unless ``model`` gives one score per class for inputs of ``shape``.

    >>> check_outputs(nn.Linear(8, 3), (8,), classes=3)
    """
    outputs = output_width(model, shape)
    if outputs != classes:
        raise ModelError(
            f"the model gives {outputs} class scores and the data have {classes} classes: "
            f"give its last layer {classes} outputs."
        )


def _cut(model: nn.Module, name: str) -> tuple[nn.Module, nn.Module]:
    """A copy of the model without the layer ``name``, and a copy of that layer."""
    body = copied(model)
    head = body.get_submodule(name)
    if head is body:
        return nn.Identity(), head
    for module in list(body.modules()):
        for key, child in module._modules.items():
            if child is head:  # perhaps under several names
                module._modules[key] = nn.Identity()
    return body, head


def _is_pair(model: nn.Module, x: Tensor) -> bool:
    children = dict(model.named_children())
    if not {"body", "head"} <= set(children):
        return False
    try:
        _check(model, "head", children["body"], x)
    except ModelError:
        return False  # names by chance: the rule for all other models holds
    return True


def _last_linear(model: nn.Module, x: Tensor) -> str:
    """Name of the linear layer that gives the model's output; the last one called, if none does."""
    model = copied(model)
    calls: list[tuple[str, Tensor]] = []
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    for name, layer in layers.items():
        layer.register_forward_hook(lambda _layer, _args, output, name=name: calls.append((name, output)))
    output = outputs_of(model, x, training=False)
    if not calls:
        raise ModelError(
            ("no nn.Linear of the model is called as a layer" if layers else "the model has no nn.Linear")
            + f", so that it cannot be cut before its last one: end it in an nn.Linear, {_OR_PAIR}."
        )
    # A side branch may be called later than the layer that counts.
    return next((name for name, seen in reversed(calls) if _close(seen, output)), calls[-1][0])


def _check(model: nn.Module, name: str, body: nn.Module, x: Tensor) -> None:
    """Raise a ModelError unless the model is its layer ``name`` after ``body``, in training and in evaluation.

    The output of the layer is replaced by numbers that no activation would leave alone. Comparing head(body(x)) with
    model(x) would see less: a softmax after a layer that starts at zero, say, or a ReLU that happens to cut nothing.
    """
    for training in (False, True):
        mode = "in training" if training else "in evaluation"
        taken, made, output = _tapped(model, name, x, training)
        if len(made) > 1:
            raise ModelError(
                f"its last linear layer {name!r} is used {len(made)} times in one pass: end the model in another one."
            )
        if not made or made[0].dtype != output.dtype or not torch.equal(made[0], output):
            raise ModelError(
                f"the model's output {mode} is not that of its last linear layer {name!r}: something comes "
                f"after it. Remove that (a softmax is not needed: training works on logits), {_OR_PAIR}."
            )
        representation = outputs_of(copied(body), x, training, "the model without its last layer")
        if len(taken) != 1 or not _close(taken[0], representation):
            raise ModelError(
                f"the model cannot be cut before its last linear layer {name!r}: without it, it gives {mode} something "
                f"else than what the layer takes. Call that layer once, as a module and last of all, {_OR_PAIR}."
            )


def _tapped(model: nn.Module, name: str, x: Tensor, training: bool) -> tuple[list[Any], list[Tensor], Tensor]:
    """What the layer ``name`` takes during a pass, what we let it give instead, and what the model makes of that."""
    model = copied(model)
    taken: list[Any] = []
    made: list[Tensor] = []

    def replace(_layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
        taken.extend(copy.deepcopy([*args, *kwargs.values()]))  # copies: what follows may work in place
        made.append(torch.linspace(-9, 9, output.numel()).to(output).view_as(output))
        return made[-1].clone()

    model.get_submodule(name).register_forward_hook(replace, with_kwargs=True)
    return taken, made, outputs_of(model, x, training)


def _check_apart(body: nn.Module, head: nn.Module) -> None:
    """Raise a ModelError if the parts have a parameter in common: they would drift apart once each is trained alone."""
    ours = {id(parameter) for parameter in head.parameters()}
    for name, parameter in body.named_parameters():
        if id(parameter) in ours:
            raise ModelError(f"the last layer shares its weights with {name!r} of the body: give each its own.")


def _close(a: Any, b: Tensor) -> bool:
    # The same operations on the same numbers; some devices add in another order each time.
    same_kind = isinstance(a, Tensor) and a.shape == b.shape and a.dtype == b.dtype
    return same_kind and torch.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)
