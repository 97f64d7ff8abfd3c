"""One vector for each class that a client has: collected over its samples, sent, and checked on arrival."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.algorithms.uploads import Upload
from potluck.contract import Batch
from potluck.errors import PayloadError
from potluck.payload import check_tensor

MOST_COUNTED = 1 << 24
"""So many samples of one class a client can have: they are counted in float32, which counts no further."""


def class_sums(values: Tensor, batch: Batch, classes: int) -> dict[str, Tensor]:
    """The sum of the vectors ``values`` over the samples of each class, [classes, width], and how many there are."""
    member = F.one_hot(batch.y, classes).to(values.dtype) * batch.weight.to(values.dtype).unsqueeze(1)
    return {"sums": member.T @ values, "counts": member.sum(0)}


def class_means(collected: Mapping[str, Tensor], with_counts: bool = False) -> dict[str, Tensor]:
    """What is sent of :func:`class_sums`: the mean of each class that the client has, its label, perhaps its count."""
    labels = torch.nonzero(collected["counts"]).flatten()
    counts = collected["counts"][labels]
    sent = {"means": collected["sums"][labels] / counts.unsqueeze(1), "labels": labels.to(torch.int32)}
    return {**sent, "counts": counts.to(torch.int32)} if with_counts else sent


def check_class_means(upload: Upload, width: int, classes: int, dtype: torch.dtype, with_counts: bool = False) -> None:
    """Refuse what is not one vector of ``width`` finite numbers for each of some classes, in their order."""
    upload.payload.require_dense()
    tensors = upload.payload.tensors
    expected = ["counts", "labels", "means"] if with_counts else ["labels", "means"]
    if sorted(tensors) != expected:
        raise PayloadError(f"client {upload.client} sent {sorted(tensors)}, expected {expected}.")
    labels = tensors["labels"]
    check_tensor("labels", labels, (labels.numel(),), torch.int32)
    check_tensor("means", tensors["means"], (len(labels), width), dtype)
    if not len(labels) or bool((labels < 0).any() | (labels >= classes).any() | (labels.diff() <= 0).any()):
        raise PayloadError(f"client {upload.client} sent labels that are no ascending classes from 0 to {classes - 1}.")
    if with_counts:
        check_tensor("counts", tensors["counts"], (len(labels),), torch.int32)
        counts = tensors["counts"]
        if bool((counts < 1).any()):
            raise PayloadError(f"client {upload.client} sent a class without a sample.")
        if bool((counts > MOST_COUNTED).any()):
            raise PayloadError(
                f"client {upload.client} sent a class of {int(counts.max()):,} samples: {MOST_COUNTED:,} is the most."
            )
