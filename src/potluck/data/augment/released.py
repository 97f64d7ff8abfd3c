"""The papers' augmentation, as their released code has it: flip, erase, shift."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from potluck.data.augment.geometry import TRIES, below, draw, sides
from potluck.data.augment.memory import in_one_piece

PADDING = 4
"""Zeros on every side, before an image is cut to its size again."""
_PLACES = 2 * PADDING + 1

_LINE = 16
"""So many numbers are a line of a CPU's cache: images that begin with one are written sooner."""


def release(x: Tensor, keys: Tensor) -> Tensor:
    """Augment as the papers' released code does: flip, erase, shift, in this order.

    Half of the images are mirrored. In half of them a rectangle of 4 to 20 % of the area, with sides in a ratio of
    1:2 to 2:1, is set to zero (Zhong et al., "Random erasing data augmentation"). Then each is padded with four zeros
    on every side, and a random part of the original size is kept. After normalisation zero is the mean.

    Args:
        x: Normalised images, of shape [B, C, H, W].
        keys: One key per image, int64 of shape [B] on the device of ``x``.
    """
    return released(plan_release(keys, *x.shape[2:]), x.shape, x.dtype, lambda images: images.copy_(x))


def plan_release(keys: Tensor, height: int, width: int) -> Tensor:
    """What is drawn for images of this size, int32 of shape [B, 8].

    Whether to flip and to erase, how far to shift down and to the right; top, left, bottom and right of what to erase.
    """
    bits = draw(keys, first=0, count=4 + 4 * _tries(height, width)).unsqueeze(2)
    flip, erase, down, right = bits[:4]
    choices = torch.stack((below(flip, 2), below(erase, 2), below(down, _PLACES), below(right, _PLACES)))
    # Half the bytes, for what is computed for every pixel.
    return torch.cat((choices, _rectangle(bits[4:], height, width))).squeeze(2).to(torch.int32).t().contiguous()


def released(
    plan: Tensor, shape: torch.Size, dtype: torch.dtype, draw: Callable[[Tensor], object],
    layout: torch.memory_format = torch.contiguous_format,
) -> Tensor:  # fmt: skip
    """Images, augmented as :func:`plan_release` has drawn it.

    Args:
        plan: What was drawn for them, on their device.
        shape: Their shape, [B, C, H, W].
        dtype: Their type.
        draw: Writes the images, normalised but not augmented, to the tensor that it is given.
        layout: In which the result lies, unless it is to be differentiated.
    """
    count, channels, height, width = shape
    device = plan.device
    flip, erase, down, right, top, left, bottom, edge = plan.t().unsqueeze(2)
    # Where each row and column of the result lies in the image that was flipped and erased, but not shifted.
    row = torch.arange(-PADDING, height - PADDING, dtype=torch.int32, device=device) + down
    column = torch.arange(-PADDING, width - PADDING, dtype=torch.int32, device=device) + right
    mirrored = torch.where(flip == 1, width - 1 - column, column)
    # What is outside or erased is read from one more pixel, a zero: number ``none`` and all above it.
    none = height * width
    rows = torch.where((row < 0) | (row >= height), none, row * width)
    columns = torch.where((column < 0) | (column >= width), none, mirrored)
    erased_rows = torch.where((row >= top) & (row < bottom) & (erase == 1), none, 0).to(torch.int32)
    erased_columns = torch.where((column >= left) & (column < edge), none, 0).to(torch.int32)
    pixels, number, erased, taken = in_one_piece(
        device,
        ((count, channels, none + _LINE), dtype),
        ((count, height, width), torch.int32),
        ((count, height, width), torch.int32),
        ((count, height, width), torch.int64),
    )
    torch.add(rows.unsqueeze(2), columns.unsqueeze(1), out=number)
    torch.minimum(erased_rows.unsqueeze(2), erased_columns.unsqueeze(1), out=erased)
    taken.copy_(torch.maximum(number, erased, out=number).clamp_(max=none))
    draw(pixels[..., :none].view(shape))
    pixels[..., none] = 0
    taken = taken.view(count, 1, none).expand(-1, channels, -1)
    if pixels.requires_grad:  # which memory that is given does not allow
        return pixels.gather(2, taken).view(shape)
    result = torch.empty(shape, dtype=dtype, device=device, memory_format=layout)
    torch.gather(pixels, 2, taken, out=result.view(count, channels, none))
    return result


def _tries(height: int, width: int) -> int:
    """How many rectangles to draw: one that is not smaller than the image can only happen to an elongated image."""
    return 1 if 4 * 0.2 * 2 * height * width < (2 * min(height, width) - 1) ** 2 else TRIES


def _rectangle(bits: Tensor, height: int, width: int) -> Tensor:
    """Top, left, bottom and right (these exclusive) of the part to erase, empty where none fits; of shape [4, B, 1].

    Args:
        bits: Four draws for every try, of shape [4 * tries, B, 1].
        height: Of the images.
        width: Of the images.
    """
    area, ratio, down, right = bits.view(len(bits) // 4, 4, *bits.shape[1:]).unbind(1)
    # 16 of the bits, between 4 % and 20 % of the area: 16,384 / 409,600 and 81,920 / 409,600.
    scaled = height * width * (16_384 + (area >> 8))
    tall, wide = sides(scaled, 409_600, ratio, lowest=1 / 2, longest=max(height, width))
    fits = (tall < height) & (wide < width)
    top, left = below(down, height - tall + 1), below(right, width - wide + 1)
    edges = torch.stack((top, left, torch.where(fits, top + tall, top), left + wide))
    if len(fits) == 1:
        return edges[:, 0]
    first = fits.to(torch.uint8).argmax(0)  # 0 where none fits
    return edges.gather(1, first.expand(4, 1, -1, -1)).squeeze(1)
