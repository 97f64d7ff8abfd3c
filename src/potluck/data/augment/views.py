"""FedClassAvg's augmentation: a random part of the image, flipped, its colours changed (as in SimCLR, without blur).

It is made of the usual transforms, each with its usual law: a random resized crop (20 to 100 % of the area, sides in a
ratio of 3:4 to 4:3), a flip of half the images, a change of brightness, contrast, saturation (by a factor of 0.6 to 1.4
each) and hue (by up to 0.1 of the circle) of 80 % of them, in random order, and 20 % of them in grey.

The usual transforms work on one image at a time, round to bytes in between where images are bytes, and draw from one
generator. Here whole batches are transformed in floating point, each image by its own key. A part is brought back to
the size of the image by bilinear interpolation (pixels are areas: ``align_corners=False``); as a part is never larger
than the image, there is nothing that antialiasing would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

import torch
from torch import Tensor

from potluck.data.augment.geometry import TRIES, below, draw, sides
from potluck.data.augment.memory import in_one_piece
from potluck.errors import DataError

_FLIP, _JITTER, _ORDER, _FACTORS, _HUE, _GREY, _CROP = 0, 1, 2, (3, 4, 5), 6, 7, 8
"""Which of a key's draws decides what."""
_NOTHING, _BRIGHTNESS, _CONTRAST, _SATURATION, _HUE_TURN = range(5)
_STRENGTH, _TURN_BY = 0.4, 0.1
_RED, _GREEN, _BLUE = 0.2989, 0.587, 0.114
"""How much of a colour's light is in each channel."""


def two_views(x: Tensor, keys: Tensor) -> Tensor:
    """Augment images as FedClassAvg does; two views are two calls, with different keys.

    Args:
        x: Images of shape [B, 1 or 3, H, W], with values from 0 to 1. Those in grey have neither saturation nor hue.
        keys: One key per image, int64 of shape [B] on the device of ``x``.
    """
    if x.shape[1] not in (1, 3):
        raise DataError(
            f"augmentation 'two-views' is for images in grey or in colour, and these have {x.shape[1]} channels: use "
            "'release' or 'none'."
        )
    bits = draw(keys, first=0, count=_CROP + 4 * TRIES)
    images, planes = in_one_piece(x.device, ((2, *x.shape), x.dtype), ((6, len(x), *x.shape[2:]), x.dtype))
    result = torch.empty_like(x, memory_format=torch.contiguous_format)
    _crop(x, result, _geometry(bits, *x.shape[2:]), images)
    _colour(result, _colours(bits, x.shape[1], x.dtype), planes)
    return result


# ---- where pixels come from ---------------------------------------------------------------------------------------


def _crop(x: Tensor, result: Tensor, geometry: Sequence[Tensor], spare: Tensor) -> None:
    """Put a part of each image, in the size of the image, into ``result``."""
    count, channels, height, width = x.shape
    above, under, down, before, after, right = geometry
    # Whole rows first: copying them is quick.
    planes = torch.arange(count * channels, device=x.device).view(count, channels, 1) * height
    for rows, picked in zip((above, under), spare, strict=True):
        torch.index_select(x.reshape(-1, width), 0, (planes + rows.unsqueeze(1)).flatten(), out=picked.view(-1, width))
    stretched = spare[0].lerp_(spare[1], down.to(x.dtype).view(count, 1, height, 1))
    for columns, picked in zip((before, after), (result, spare[1]), strict=True):
        torch.gather(stretched, 3, columns.view(count, 1, 1, width).expand_as(x), out=picked)
    result.lerp_(spare[1], right.to(x.dtype).view(count, 1, 1, width))


def _geometry(bits: Tensor, height: int, width: int) -> tuple[Tensor, ...]:
    """Between which two rows, and how far between, each row of the result lies, of shape [B, H]; columns likewise."""
    top, left, tall, wide = _part(bits, height, width).unsqueeze(2)
    column = torch.arange(width, device=bits.device)
    flip = below(bits[_FLIP], 2).unsqueeze(1) == 1
    above, under, down = _neighbours(torch.arange(height, device=bits.device), tall, height)
    before, after, right = _neighbours(torch.where(flip, width - 1 - column, column), wide, width)
    return top + above, top + under, down, left + before, left + after, right


def _neighbours(places: Tensor, length: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The two pixels of a stretch of ``length`` between which each of ``size`` pixels lies, and how far between.

    The middle of pixel p lies at (2p + 1) length / (2 size) - 1/2, and not before the first or after the last.
    """
    doubled = ((2 * places + 1) * length - size).clamp(min=0).minimum(2 * size * (length - 1))
    first = doubled // (2 * size)
    # A tensor, for CUDA divides by a plain number as a product with its reciprocal, and so not as the CPU does.
    share = (doubled % (2 * size)).to(torch.float64) / torch.full_like(length, 2 * size, dtype=torch.float64)
    return first, torch.minimum(first + 1, length - 1), share


def _part(bits: Tensor, height: int, width: int) -> Tensor:
    """Top, left, height and width of the part to keep, of shape [4, B]."""
    area, ratio, down, right = bits[_CROP:].view(TRIES, 4, bits.shape[1]).unbind(1)
    # 16 of the bits, between 20 % and 100 % of the area: 65,536 / 327,680 and 327,680 / 327,680.
    scaled = height * width * (65_536 + 4 * (area >> 8))
    wide, tall = sides(scaled, 327_680, ratio, lowest=3 / 4, longest=max(height, width) + 1)
    fits = (tall > 0) & (tall <= height) & (wide > 0) & (wide <= width)
    top, left = below(down, (height - tall + 1).clamp(min=1)), below(right, (width - wide + 1).clamp(min=1))
    drawn = torch.stack((top, left, tall, wide)).gather(1, fits.to(torch.uint8).argmax(0).expand(4, 1, -1)).squeeze(1)
    return torch.where(fits.any(0), drawn, _middle(height, width, bits.device))


@lru_cache
def _middle(height: int, width: int, device: torch.device) -> Tensor:
    """The part that is kept where none fits: the largest in the middle whose ratio is allowed; of shape [4, 1]."""
    tall = min(height, round(width * 4 / 3))
    wide = min(width, round(height * 4 / 3))
    return torch.tensor([[(height - tall) // 2], [(width - wide) // 2], [tall], [wide]], device=device)


# ---- colours ------------------------------------------------------------------------------------------------------


def _colour(x: Tensor, colours: Tensor, spare: Tensor) -> None:
    """Change the colours of the images in place."""
    *mixtures, turn = colours
    for step, mixture in enumerate(mixtures):
        if x.shape[1] == 3 and step == 3:
            _turn(x, turn[0], spare)
        _blend(x, mixture, spare[0])


def _colours(bits: Tensor, channels: int, dtype: torch.dtype) -> Tensor:
    """The mixtures of every step, and last the turn of the hue in sixths (three times); of shape [steps + 1, 3, B]."""
    chances = bits[:_CROP].to(torch.float32) / (1 << 24)  # from 0 to below 1, the same in every precision
    chosen = chances[_JITTER] < 0.8
    kinds = torch.where(chosen, _schedule(channels, bits.device)[:, below(bits[_ORDER], 24)], _NOTHING)
    factors = [1 + _STRENGTH * (2 * chances[stream].to(dtype) - 1) for stream in _FACTORS]
    factor = torch.ones_like(kinds, dtype=dtype)
    for kind, of_kind in zip((_BRIGHTNESS, _CONTRAST, _SATURATION), factors, strict=True):
        factor = torch.where(kinds == kind, of_kind, factor)
    # Brightness mixes an image with black, contrast with its mean light, saturation with its light at every pixel.
    rest = 1 - factor
    mixtures = torch.stack(
        (factor, torch.where(kinds == _SATURATION, rest, 0.0), torch.where(kinds == _CONTRAST, rest, 0.0)), 1
    )
    # An image in grey is one without saturation.
    grey = (chances[_GREY] < 0.2).to(dtype)
    last = torch.stack((1 - grey, grey, torch.zeros_like(grey)))
    turn = torch.where(chosen, 6 * _TURN_BY * (2 * chances[_HUE].to(dtype) - 1), 0.0).expand(3, -1)
    return torch.cat((mixtures, torch.stack((last, turn)) if channels == 3 else turn.unsqueeze(0)))


@lru_cache
def _schedule(channels: int, device: torch.device) -> Tensor:
    """What is done in each step, for each of the 24 orders of the four changes; of shape [steps, 24].

    An order is what comes before the turn of the hue, padded with nothing to three steps, and what comes after it,
    likewise: so that all images of a batch are turned at once. Images in grey have two changes only.
    """
    rows = []
    for order in permutations((_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE_TURN)):
        turn = order.index(_HUE_TURN)
        before, after = list(order[:turn]), list(order[turn + 1 :])
        colour = before + [_NOTHING] * (3 - len(before)) + after + [_NOTHING] * (3 - len(after))
        rows.append(colour if channels == 3 else [kind for kind in order if kind in (_BRIGHTNESS, _CONTRAST)])
    return torch.tensor(rows, device=device).T


def _blend(x: Tensor, mixture: Tensor, spare: Tensor) -> None:
    """Mix each image with its light, pixel by pixel and in the mean, in place."""
    own, of_light, of_mean = mixture.unsqueeze(2).unsqueeze(3)
    if x.shape[1] == 1:
        light = x[:, 0]
        other = light.mean((1, 2), keepdim=True) * of_mean
    else:
        red, green, blue = x.unbind(1)
        light = torch.mul(red, _RED, out=spare).add_(green, alpha=_GREEN).add_(blue, alpha=_BLUE)
        mean = light.mean((1, 2), keepdim=True) * of_mean
        other = light.mul_(of_light).add_(mean)
    torch.addcmul(other.unsqueeze(1), x, own.unsqueeze(1), out=x).clamp_(0, 1)


def _turn(x: Tensor, by: Tensor, spare: Tensor) -> None:
    """Turn the hue of each image by so many sixths of the circle, in place."""
    red, green, blue = x.unbind(1)
    low, high, bluer, other, span, hue = spare
    torch.minimum(green, blue, out=low)
    torch.maximum(green, blue, out=high)
    torch.lt(green, blue, out=bluer)
    torch.lt(red, high, out=other)
    torch.maximum(red, high, out=span)
    middle = torch.minimum(red, high, out=high)
    torch.sub(middle, low, out=hue)
    least = torch.minimum(middle, low, out=low)
    span -= least
    # The hue in sixths: red is at 0, green at 2, blue at 4. Where red has the most light it is counted from 0, or where
    # there is more blue than green back from 6; else back from 2, or where there is more blue than green on from 4.
    scratch = high
    start = bluer.mul_(torch.mul(other, 12, out=scratch).sub_(6)).add_(other, alpha=-2)
    hue.div_(torch.clamp(span, min=torch.finfo(x.dtype).tiny, out=scratch)).add_(start).abs_().add_(by.view(-1, 1, 1))
    hue.sub_(torch.div(hue, 6, out=scratch).floor_(), alpha=6)
    # How much of the span each channel has at that hue: red most around 0 and 6, green around 2, blue around 4.
    torch.sub(hue, 3, out=scratch).abs_().sub_(1).clamp_(0, 1)
    torch.addcmul(least, span, scratch, out=red)
    for channel, at in ((green, 2), (blue, 4)):
        torch.sub(hue, at, out=scratch).abs_().sub_(2).clamp_(-1, 0)  # the negative of it
        torch.addcmul(least, span, scratch, value=-1, out=channel)
