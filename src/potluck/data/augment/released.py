"""The papers' augmentation, as their released code has it: flip, erase, shift."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.data.augment.geometry import TRIES, below, draw, sides

_PADDING = 4


def release(x: Tensor, keys: Tensor) -> Tensor:
    """Augment as the papers' released code does: flip, erase, shift, in this order.

    Half of the images are mirrored. In half of them a rectangle of 4 to 20 % of the area, with sides in a ratio of
    1:2 to 2:1, is set to zero (Zhong et al., "Random erasing data augmentation"). Then each is padded with four zeros
    on every side, and a random part of the original size is kept. After normalisation zero is the mean.

    Args:
        x: Normalised images, of shape [B, C, H, W].
        keys: One key per image, int64 of shape [B] on the device of ``x``.
    """
    count, channels, height, width = x.shape
    flip, erase, down, right = draw(keys, first=0, count=4).view(4, count, 1)
    top, left, bottom, edge = _rectangle(keys, height, width).view(4, count, 1)
    # Where each row and column of the result lies in the image that was flipped and erased, but not shifted.
    row = torch.arange(height, device=x.device) + below(down, 2 * _PADDING + 1) - _PADDING
    column = torch.arange(width, device=x.device) + below(right, 2 * _PADDING + 1) - _PADDING
    mirrored = torch.where(below(flip, 2) == 1, width - 1 - column, column)
    # What is outside or erased is read from one more pixel, a zero: number ``none`` and all above it.
    none = height * width
    rows = torch.where((row < 0) | (row >= height), none, row * width)
    columns = torch.where((column < 0) | (column >= width), none, mirrored)
    erased_rows = torch.where((row >= top) & (row < bottom) & (below(erase, 2) == 1), none, 0)
    erased_columns = torch.where((column >= left) & (column < edge), none, 0)
    erased = torch.minimum(erased_rows.unsqueeze(2), erased_columns.unsqueeze(1))
    pixel = torch.maximum(rows.unsqueeze(2) + columns.unsqueeze(1), erased).clamp_(max=none)
    pixels = F.pad(x.flatten(2), (0, 1))
    return pixels.gather(2, pixel.view(count, 1, none).expand(-1, channels, -1)).view(x.shape)


def _rectangle(keys: Tensor, height: int, width: int) -> Tensor:
    """Top, left, bottom and right (these exclusive) of the part to erase, empty where none fits; of shape [4, B]."""
    # A rectangle that is not smaller than the image is drawn again, which can only happen to an elongated image.
    tries = 1 if 4 * 0.2 * 2 * height * width < (2 * min(height, width) - 1) ** 2 else TRIES
    area, ratio, down, right = draw(keys, first=4, count=4 * tries).view(tries, 4, len(keys)).unbind(1)
    # 16 of the bits, between 4 % and 20 % of the area: 16,384 / 409,600 and 81,920 / 409,600.
    scaled = height * width * (16_384 + (area >> 8))
    tall, wide = sides(scaled, 409_600, ratio, lowest=1 / 2, longest=max(height, width))
    fits = (tall < height) & (wide < width)
    top, left = below(down, height - tall + 1), below(right, width - wide + 1)
    edges = torch.stack((top, left, torch.where(fits, top + tall, top), left + wide))
    first = fits.to(torch.uint8).argmax(0)  # 0 where none fits
    return edges.gather(1, first.expand(4, 1, -1)).squeeze(1)
