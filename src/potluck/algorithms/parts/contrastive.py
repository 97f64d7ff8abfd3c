"""The supervised contrastive loss of Khosla et al., NeurIPS 2020 (its L_out), on two views of every sample."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.contract import Batch


def supervised_contrastive(first: Tensor, second: Tensor, batch: Batch, temperature: float) -> Tensor:
    """Draw representations of one class together, and push those of different classes apart.

    Each of the 2B representations is an anchor. Its positives are the others of its class: at least the other view of
    the same sample, so that there always is one. The loss is the mean over anchors, and for each over its positives p,
    of ``-log(exp(z.z_p / temperature) / sum over all others a of exp(z.z_a / temperature))``.

    Args:
        first: Representations of the first view, of shape [B, width], normalised or not.
        second: Those of the second view.
        batch: Gives the labels, and the weights by which pairs are masked.
        temperature: Divides the products.
    """
    z, y, weight = torch.cat((first, second)), batch.y.repeat(2), batch.weight.repeat(2).to(first.dtype)
    likeness = z @ z.T / temperature
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    # A large number rather than infinity: a row of nothing but padding must stay finite.
    others = likeness.masked_fill(itself | (weight == 0), torch.finfo(z.dtype).min / 4)
    log_share = likeness - torch.logsumexp(others, dim=1, keepdim=True)
    positive = ((y.unsqueeze(1) == y) & ~itself).to(z.dtype) * weight
    losses = -(positive * log_share).sum(1) / positive.sum(1).clamp(min=1)
    return (losses * weight).sum() / weight.sum().clamp(min=1)


def normalised(z: Tensor) -> Tensor:
    """Vectors of length 1."""
    return F.normalize(z, dim=1)
