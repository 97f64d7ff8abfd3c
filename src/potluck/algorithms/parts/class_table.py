"""One vector for each class, as the server keeps it and sends it: only of the classes that a client has."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from potluck.algorithms.uploads import Upload
from potluck.contract import Batch, Received
from potluck.errors import PayloadError
from potluck.payload import Payload, check_numbers, check_tensor


def seen_classes(seen: Tensor, uploads: Sequence[Upload]) -> Tensor:
    """Which client has which class, as a mask [clients, classes], with what the labels of these uploads tell."""
    seen = seen.clone()
    for upload in uploads:
        seen[upload.client] = 0
        seen[upload.client, upload.payload.tensors["labels"].long()] = 1
    return seen


def table_payload(values: Tensor, known: Tensor, wanted: Tensor) -> Payload:
    """The known rows of a table [classes, width], for a client with a row of :func:`seen_classes`.

    A client that has not taken part yet, whose classes are not known, receives all.
    """
    rows = known.bool() & (wanted.bool() | ~wanted.any())
    labels = torch.nonzero(rows).flatten()
    return Payload({"values": values[labels], "labels": labels.to(torch.int32)})


def dense_table(payload: Payload, classes: int, width: int) -> Received:
    """What arrived, as ``values`` [classes, width] and ``known`` [classes], which is 0 for classes that did not."""
    payload.require_names({"values", "labels"})
    values, labels = payload.tensors["values"], payload.tensors["labels"]
    check_tensor("labels", labels, (labels.numel(),), torch.int32)
    check_numbers("values", values, (len(labels), width))
    labels = labels.long()
    if bool((labels < 0).any() | (labels >= classes).any()):
        raise PayloadError(f"labels arrived that are not from 0 to {classes - 1}.")
    table = values.new_zeros(classes, width)
    known = values.new_zeros(classes)
    table[labels], known[labels] = values, 1.0
    return {"values": table, "known": known}


def pull_to_prototypes(representation: Tensor, batch: Batch, received: Received) -> Tensor:
    """The mean squared distance of each sample's representation from its class's prototype, where there is one."""
    apart = (representation - received["values"][batch.y]).square().mean(1)
    return batch.mean(apart * received["known"][batch.y])


def distances(one: Tensor, other: Tensor) -> Tensor:
    """Euclidean distances of all pairs, from differences: squares by the binomial formula can come out negative."""
    return torch.cdist(one, other, compute_mode="donot_use_mm_for_euclid_dist")


def nearest_prototype(representation: Tensor, received: Received, otherwise: Tensor) -> Tensor:
    """Logits that are the larger the nearer a class's prototype is; ``otherwise`` while there are no prototypes."""
    values = received["values"]
    # Not from all differences: with many classes those are gigabytes.
    apart = distances(representation, values).square() / values.shape[1]
    known = received["known"].bool()
    return torch.where(known.any(), (-apart).masked_fill(~known, torch.finfo(apart.dtype).min), otherwise)
