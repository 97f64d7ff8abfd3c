"""Augmentation, against a slow literal version driven by the same draws, and in distribution."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from potluck.data import augment
from potluck.data.augment import geometry, released
from potluck.data.augment.memory import in_one_piece
from potluck.draws import spread, uniform
from potluck.errors import ConfigError


def literal(image: Tensor, key: Tensor) -> Tensor:
    """One image at a time, step by step, as torchvision's documentation describes the three transforms."""

    def draw(stream: int) -> float:
        return float(uniform(key.reshape(1), stream).double())

    _, height, width = image.shape
    if draw(0) >= 0.5:
        image = image.flip(-1)
    if draw(1) >= 0.5:
        image = image.clone()
        for attempt in range(10):
            first = 4 + 4 * attempt
            area = height * width * (0.04 + 0.16 * math.floor(draw(first) * 2**16) / 2**16)
            position = (math.floor(draw(first + 1) * 4096) + 0.5) / 4096
            ratio = math.exp(math.log(0.5) + position * (math.log(2) - math.log(0.5)))
            tall, wide = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if not (tall < height and wide < width):
                continue
            top = math.floor(draw(first + 2) * (height - tall + 1))
            left = math.floor(draw(first + 3) * (width - wide + 1))
            image[:, top : top + tall, left : left + wide] = 0
            break
    padded = torch.nn.functional.pad(image, (4, 4, 4, 4))
    top, left = math.floor(draw(2) * 9), math.floor(draw(3) * 9)
    return padded[:, top : top + height, left : left + width]


def batch(size: int, *shape: int, key: int = 0) -> tuple[Tensor, Tensor]:
    keys = spread(key, torch.arange(size))
    return torch.randn(size, *shape, generator=torch.Generator().manual_seed(key)), keys


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (2, 7, 40), (1, 30, 9), (1, 3, 3), (1, 1, 1), (1, 1, 20)])
def test_equals_the_literal_version(shape: tuple[int, int, int]) -> None:
    x, keys = batch(300, *shape)
    expected = torch.stack([literal(image, key) for image, key in zip(x, keys, strict=True)])
    assert torch.equal(augment.release(x, keys), expected)


def rectangle(keys: Tensor, height: int, width: int) -> Tensor:
    bits = geometry.draw(keys, first=4, count=4 * released._tries(height, width)).unsqueeze(2)
    return released._rectangle(bits, height, width).squeeze(2)


def test_elongated_images_are_drawn_again() -> None:
    # 7 x 40: a first rectangle is often as high as the image; were it not drawn again, many would not be erased.
    x = torch.ones(2000, 1, 7, 40)
    top, left, bottom, right = rectangle(spread(1, torch.arange(2000)), 7, 40)
    assert (bottom > top).float().mean() > 0.99
    assert ((bottom - top) * (right - left) < 0.25 * x[0].numel()).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_geometry_is_the_same_in_every_precision(dtype: torch.dtype) -> None:
    _, keys = batch(200, 1, 1, 1)
    # Each pixel carries its own place, in numbers that every precision holds exactly.
    x = torch.arange(1.0, 257.0).reshape(1, 1, 16, 16).expand(200, 1, 16, 16)
    result = augment.release(x.to(dtype), keys)
    assert result.dtype == dtype
    assert torch.equal(result.float(), augment.release(x, keys))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_geometry_is_the_same_on_every_device() -> None:
    x, keys = batch(100_000, 1, 12, 12)
    assert torch.equal(augment.release(x.cuda(), keys.cuda()).cpu(), augment.release(x, keys))


def test_an_image_does_not_depend_on_its_batch() -> None:
    x, keys = batch(50, 3, 16, 16)
    whole = augment.release(x, keys)
    order = torch.arange(49, -1, -7)
    assert torch.equal(augment.release(x[order], keys[order]), whole[order])
    assert augment.release(x[:0], keys[:0]).shape == (0, 3, 16, 16)


def test_input_is_left_alone_and_zero_is_zero() -> None:
    x, keys = batch(100, 3, 16, 16)
    before = x.clone()
    augment.release(x, keys)
    assert torch.equal(x, before)
    # Not by multiplication, which would leave nan and -0.
    spoilt = augment.release(torch.full_like(x, math.nan), keys)
    assert (spoilt == 0).any()
    assert (spoilt.isnan() | (spoilt == 0)).all()
    assert not torch.signbit(augment.release(-x.abs() - 1, keys)[spoilt == 0]).any()


def test_flips_and_shifts_in_distribution() -> None:
    count = 4500
    keys = spread(5, torch.arange(count))
    # A first row of 1, 2, ... across: a shift and a flip can be read off any column that is neither erased nor outside.
    x = torch.arange(1.0, 33.0).expand(count, 1, 32, 32)
    result = augment.release(x, keys)[:, 0]
    best = result.max(1).values  # over rows: a whole column is never erased
    slope = best[:, 16] - best[:, 15]
    assert set(slope.tolist()) == {-1.0, 1.0}
    assert abs((slope > 0).float().mean() - 0.5) < 0.03
    shift = torch.where(slope > 0, best[:, 16] - 17, 16 - best[:, 16]).int()
    across = Counter(shift.tolist())
    assert sorted(across) == list(range(-4, 5))
    assert all(abs(n - count / 9) < 100 for n in across.values())

    down = augment.release(x.transpose(-1, -2), keys)[:, 0].max(2).values[:, 16] - 17
    downs = Counter(down.int().tolist())
    assert sorted(downs) == list(range(-4, 5))
    assert all(abs(n - count / 9) < 100 for n in downs.values())
    # The two directions are drawn independently.
    assert abs(torch.corrcoef(torch.stack((down, shift.float())))[0, 1]) < 0.05


def test_erasing_in_distribution() -> None:
    count, side = 20_000, 64
    keys = spread(6, torch.arange(count))
    top, left, bottom, right = rectangle(keys, side, side)
    area = (bottom - top) * (right - left) / side**2
    assert abs(area.mean() - 0.12) < 0.002  # uniform between 0.04 and 0.2
    assert abs(area.std() - 0.16 / 12**0.5) < 0.002
    ratio = ((bottom - top) / (right - left)).log2()
    assert abs(ratio.mean()) < 0.02  # log-uniform between 1/2 and 2
    assert abs(ratio.std() - 2 / 12**0.5) < 0.01
    # The place is uniform among those that fit, the first and the last included.
    room = side - (bottom - top)
    assert (top >= 0).all()
    assert (bottom <= side).all()
    assert (top == 0).any()
    assert (top == room).any()
    assert abs((top / room).mean() - 0.5) < 0.01
    assert abs((left / (side - (right - left))).mean() - 0.5) < 0.01
    # In half of the images it is erased: then zeros are found where padding never reaches.
    middle = augment.release(torch.ones(4000, 1, 32, 32), keys[:4000])[:, 0, 4:-4, 4:-4]
    erased = (middle == 0).flatten(1).any(1).float().mean()
    assert 0.47 < erased <= 0.52


def test_whole_numbers_are_equally_likely_up_to_their_limit() -> None:
    bits = torch.arange(1 << 24)[::997]
    for limit in (1, 2, 9, 33, 4096):
        counts = torch.bincount(geometry.below(bits, limit), minlength=limit)
        assert len(counts) == limit
        assert counts.max() - counts.min() <= 1


def test_memory_in_one_piece() -> None:
    wanted = [((3,), torch.uint8), ((2, 5), torch.float64), ((0, 4), torch.int64), ((7, 1), torch.int32)]
    tensors = in_one_piece(torch.device("cpu"), *wanted)
    assert [(tuple(tensor.shape), tensor.dtype) for tensor in tensors] == wanted
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1
    for number, tensor in enumerate(tensors):
        tensor.fill_(number)
    assert all((tensor == number).all() for number, tensor in enumerate(tensors))  # none lies in another


def test_presets() -> None:
    assert augment.names() == ["none", "release", "two-views"]
    assert augment.preset("release") is augment.release
    table = torch.rand(5, 7)
    assert augment.preset("none")(table, torch.arange(5)) is table
    with pytest.raises(ConfigError, match="unknown augmentation 'relase': did you mean 'release'"):
        augment.preset("relase")
