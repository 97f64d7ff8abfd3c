"""What clients sent, and what the server keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.errors import PayloadError
from potluck.payload import Payload

State = dict[str, Tensor]
"""What the server holds between rounds: named tensors."""
MOST_SAMPLES = 1 << 40
"""No client has more training samples."""


@dataclass(frozen=True)
class Upload:
    """What one client sent."""

    client: int
    payload: Payload

    @property
    def samples(self) -> int:
        """How many training samples stand behind this upload (n_k)."""
        samples = self.payload.meta.get("samples")
        if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= MOST_SAMPLES:
            raise PayloadError(
                f"client {self.client} sent no valid number of samples: {samples!r} is not a whole number from 1 to "
                f"2**{MOST_SAMPLES.bit_length() - 1}."
            )
        return samples


def cast(state: State, dtype: torch.dtype) -> State:
    """The state in the type that a run computes in; whole numbers stay what they are."""
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def mean(uploads: Sequence[Upload], weighted: bool = True) -> State:
    """The mean of what the clients sent, each weighted by its share of the cohort's training samples, or equally.

    The papers print n as the sum over all clients, which would shrink the weights whenever only some take part; like
    all released code, this divides by the sum over the cohort.
    """
    total = sum(upload.samples for upload in uploads)
    result: State = {}
    for upload in uploads:
        share = upload.samples / total if weighted else 1 / len(uploads)
        for name, tensor in upload.payload.tensors.items():
            part = tensor * share
            result[name] = result[name] + part if name in result else part
    return result
