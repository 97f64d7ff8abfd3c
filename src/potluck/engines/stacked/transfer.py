"""Copies between the CPU and the device that wait for nothing but each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on the device.

    A copy to a GPU waits for all that was begun there, unless it comes from memory that the GPU can read by itself.
    """
    if tensor.device.type == "cpu" and device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def staged(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory of the CPU for what will be sent to the device, or fetched from there."""
    return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")


def sent_together(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    """Tensors of one shape, stacked, on the device; those of the CPU in one transfer."""
    if parts[0].device.type != "cpu" or device.type != "cuda":
        return torch.stack(list(parts)).to(device)
    together = staged((len(parts), *parts[0].shape), parts[0].dtype, device)
    return torch.stack(list(parts), out=together).to(device, non_blocking=True)


@dataclass(frozen=True)
class Arriving:
    """Tensors on their way to the CPU, whose numbers are there once they were waited for."""

    tensors: dict[str, Tensor]
    there: torch.cuda.Event | None

    def wait(self) -> dict[str, Tensor]:
        """The tensors, when they have arrived."""
        if self.there is not None:
            self.there.synchronize()
        return self.tensors


def fetching(tensors: Mapping[str, Tensor]) -> Arriving:
    """Begin to copy tensors of the device to the CPU, after all that its stream has to do; those of the CPU stay."""
    host, device = dict(tensors), None
    for name, tensor in tensors.items():
        if tensor.device.type == "cuda":
            host[name] = staged(tuple(tensor.shape), tensor.dtype, tensor.device)
            host[name].copy_(tensor, non_blocking=True)
            device = tensor.device
    if device is None:
        return Arriving(host, None)
    # One that lets whoever waits for it sleep: several threads do, and the host has other work.
    there = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # PyTorch's own
    return Arriving(host, torch.cuda.current_stream(device).record_event(there))


def fetched(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the device on the CPU, all of them in one go; those of the CPU are not copied."""
    return fetching(tensors).wait()
