"""How far a client's weights have gone from those it received."""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.contract import Networks, Received


def squared_distance(net: Networks, received: Received, *names: str) -> Tensor:
    """The squared L2 distance of the learnable weights of the networks ``names`` from the received ones."""
    pairs = [(weight, received[path]) for name in names for path, weight in net.parameters(name).items()]
    return torch.stack([(weight - sent).square().sum() for weight, sent in pairs]).sum()


def distance(net: Networks, received: Received, *names: str) -> Tensor:
    """The L2 distance itself. Its gradient where there is no distance, which has no direction, is 0."""
    square = squared_distance(net, received, *names)
    moved = square > 0
    return square.masked_fill(~moved, 1).sqrt().masked_fill(~moved, 0)
