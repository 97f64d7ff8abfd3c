"""How images lie in memory: with many channels, those of a pixel side by side, which kernels then read in one go."""

from __future__ import annotations

from torch import Tensor

_FEW = 8


def is_last(channels: int) -> bool:
    """Whether so many channels come last in memory.

    >>> is_last(3), is_last(16)
    (False, True)
    """
    return channels > _FEW


def channels_last(x: Tensor, channels: int) -> Tensor:
    """The same images with the channels of a pixel, which are this dimension, side by side."""
    return x.movedim(channels, -1).contiguous().movedim(-1, channels)


def arranged(x: Tensor) -> Tensor:
    """The same images, of shape [..., channels, height, width], as kernels have them in memory."""
    return channels_last(x, -3) if is_last(x.shape[-3]) else x.contiguous()


def empty(like: Tensor, *shape: int) -> Tensor:
    """Memory for images of this shape, of the type and on the device of another tensor."""
    *outer, channels, height, width = shape
    if is_last(channels):
        return like.new_empty(*outer, height, width, channels).movedim(-1, -3)
    return like.new_empty(shape)


def dense(tensor: Tensor) -> Tensor:
    """A tensor that lies in one piece for each client, though clients may lie apart."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()
