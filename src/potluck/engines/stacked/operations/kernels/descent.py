"""A Triton kernel for a step of SGD: clipped, with weight decay and momentum, in one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_AT_ONCE = 1024


@triton.jit(do_not_specialize=["count", "step", "gradient_step"])
def _descend(
    weights, velocity, gradient, norm, rate, active, count, step, gradient_step, limit, epsilon, decay, momentum,
    CLIPPED: tl.constexpr, DECAYED: tl.constexpr, MOMENTUM: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """A step of some weights of one client."""
    client = tl.program_id(1).to(tl.int64)
    if tl.load(active + client) != 0:
        number = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
        inside = number < count
        held = tl.load(weights + client * step + number, mask=inside, other=0.0)
        slope = tl.load(gradient + client * gradient_step + number, mask=inside, other=0.0)
        if CLIPPED:
            slope = slope * tl.minimum(
                limit / (tl.load(norm + client) + epsilon), 1.0, propagate_nan=tl.PropagateNan.ALL
            )
        if DECAYED:
            slope = slope + decay * held
        if MOMENTUM:
            slope = slope + momentum * tl.load(velocity + client * step + number, mask=inside, other=0.0)
            tl.store(velocity + client * step + number, slope, mask=inside)
        tl.store(weights + client * step + number, held - tl.load(rate).to(tl.float32) * slope, mask=inside)


def descend(
    weights: Tensor, velocity: Tensor | None, gradient: Tensor, norm: Tensor | None, rate: Tensor, active: Tensor, *,
    limit: float, epsilon: float, decay: float, momentum: float,
) -> None:  # fmt: skip
    """Change the weights of all clients that are active, and what is remembered of their gradients.

    Args:
        weights: [clients, numbers], each client's in one piece.
        velocity: What is remembered of each number, laid out alike; none without momentum.
        gradient: [clients, numbers].
        norm: Of each client's gradient, if it is clipped.
        rate: The learning rate, in float64.
        active: Which clients take the step.
        limit: To which norm gradients are clipped.
        epsilon: What is added to the norm before.
        decay: Weight decay.
        momentum: Of the velocity.
    """
    clients, count = weights.shape
    gradient = gradient if gradient.stride(1) == 1 else gradient.contiguous()
    _descend[triton.cdiv(count, _AT_ONCE), clients](
        weights, weights if velocity is None else velocity, gradient, weights if norm is None else norm, rate,
        active.view(torch.uint8), count, weights.stride(0), gradient.stride(0), limit, epsilon, decay, momentum,
        CLIPPED=norm is not None, DECAYED=decay != 0, MOMENTUM=velocity is not None, AT_ONCE=_AT_ONCE, num_warps=4,
    )  # fmt: skip
