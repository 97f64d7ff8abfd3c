"""Which networks compute what they give for a sample from that sample alone."""

from __future__ import annotations

from torch import nn

_LAYERS = frozenset({
    nn.Sequential, nn.Identity, nn.Flatten, nn.Linear, nn.Conv1d, nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d,
    nn.AdaptiveAvgPool2d, nn.LayerNorm, nn.GroupNorm, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh,
    nn.Sigmoid,
})  # fmt: skip


def keeps_samples_apart(*modules: nn.Module) -> bool:
    """Whether networks are known to give the same for a sample whatever else is in its batch, and to draw nothing.

    Of a class of one's own it is known if the class says so, by ``keeps_samples_apart = True``, and all layers in it
    are known; those derived from it say so for themselves.

    >>> keeps_samples_apart(nn.Linear(2, 2)), keeps_samples_apart(nn.Sequential(nn.BatchNorm1d(2)))
    (True, False)
    """
    return all(_is_known(part) for module in modules for part in module.modules())


def _is_known(part: nn.Module) -> bool:
    known = type(part) in _LAYERS or vars(type(part)).get("keeps_samples_apart", False)
    flattens_all = isinstance(part, nn.Flatten) and part.start_dim < 1
    return known and not flattens_all and is_as_its_class(part)


def is_as_its_class(module: nn.Module) -> bool:
    """Whether a module does what its class says: nobody watches it, or has changed what it does.

    >>> layer = nn.Linear(2, 2)
    >>> handle = layer.register_forward_hook(print)
    >>> is_as_its_class(layer), is_as_its_class(nn.Linear(2, 2))
    (False, True)
    """
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return "forward" not in vars(module) and not any(getattr(module, name) for name in hooks)
