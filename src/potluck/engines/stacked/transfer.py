"""Copies between the CPU and the device that wait for nothing but each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """Memory of the CPU for what will be sent to the device."""
    return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")


def sent_together(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    """Tensors of one shape, stacked, on the device; those of the CPU in one transfer."""
    if parts[0].device.type != "cpu" or device.type != "cuda":
        return torch.stack(list(parts)).to(device)
    together = staged((len(parts), *parts[0].shape), parts[0].dtype, device)
    return torch.stack(list(parts), out=together).to(device, non_blocking=True)


def fetched(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the device on the CPU, all of them in one go; those of the CPU are not copied."""
    host, waiting = {}, None
    for name, tensor in tensors.items():
        host[name] = tensor
        if tensor.device.type == "cuda":
            host[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            host[name].copy_(tensor, non_blocking=True)
            waiting = tensor.device
    if waiting is not None:
        torch.cuda.current_stream(waiting).synchronize()
    return host
