"""Copies of networks."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module | Mapping[str, nn.Module])


def copy_of(networks: M) -> M:
    """Copy a network, or several that may share weights, as ``copy.deepcopy`` does.

    The weight that ``torch.nn.utils.weight_norm`` computes is an attribute with a gradient of its own, which
    ``copy.deepcopy`` refuses. It is copied without: a hook computes it again before every pass.
    """
    modules = [networks] if isinstance(networks, nn.Module) else list(networks.values())
    computed: dict[int, torch.Tensor] = {
        id(value): value.detach().clone()
        for network in modules
        for module in network.modules()
        for value in vars(module).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    }
    return copy.deepcopy(networks, computed)  # of what it knows already, by id
