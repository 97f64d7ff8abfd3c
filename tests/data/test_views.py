"""FedClassAvg's augmentation, against a slow literal version driven by the same draws, and in distribution."""

from __future__ import annotations

import colorsys
import math
from collections import Counter
from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.data import Transform, augment
from potluck.data.augment import geometry, views
from potluck.draws import spread, uniform
from potluck.errors import DataError


class Draws:
    """The draws of one image's key, as numbers in [0, 1)."""

    def __init__(self, key: Tensor) -> None:
        self.key = key.reshape(1)

    def __call__(self, stream: int) -> float:
        return float(uniform(self.key, stream).double())


def part(height: int, width: int, draw: Draws) -> tuple[int, int, int, int]:
    """The part to keep, step by step as torchvision's documentation describes RandomResizedCrop."""
    for attempt in range(10):
        first = 8 + 4 * attempt
        area = height * width * (0.2 + 0.8 * math.floor(draw(first) * 2**16) / 2**16)
        position = (math.floor(draw(first + 1) * 4096) + 0.5) / 4096
        ratio = math.exp(math.log(3 / 4) + position * (math.log(4 / 3) - math.log(3 / 4)))
        wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < tall <= height:
            top = math.floor(draw(first + 2) * (height - tall + 1))
            left = math.floor(draw(first + 3) * (width - wide + 1))
            return top, left, tall, wide
    if width / height < 3 / 4:
        wide, tall = width, round(width / (3 / 4))
    elif width / height > 4 / 3:
        wide, tall = round(height * (4 / 3)), height
    else:
        wide, tall = width, height
    return (height - tall) // 2, (width - wide) // 2, tall, wide


def light(image: Tensor) -> Tensor:
    """In grey, as ITU-R 601-2 has it."""
    return image if len(image) == 1 else (0.2989 * image[0] + 0.587 * image[1] + 0.114 * image[2]).unsqueeze(0)


def turned(image: Tensor, by: float) -> Tensor:
    """Pixel by pixel, by Python's own conversion."""
    result = image.clone()
    for line in range(image.shape[1]):
        for column in range(image.shape[2]):
            hue, saturation, value = colorsys.rgb_to_hsv(*image[:, line, column].tolist())
            result[:, line, column] = torch.tensor(
                colorsys.hsv_to_rgb((hue + by) % 1, saturation, value), dtype=image.dtype
            )
    return result


def literal(image: Tensor, key: Tensor) -> Tensor:
    """One image at a time, one transform after another."""
    draw = Draws(key)
    channels, height, width = image.shape
    top, left, tall, wide = part(height, width, draw)
    cut = image[:, top : top + tall, left : left + wide]
    image = F.interpolate(cut.unsqueeze(0), size=(height, width), mode="bilinear", align_corners=False)[0]
    if draw(0) >= 0.5:
        image = image.flip(-1)
    if draw(1) < 0.8:
        brightness, contrast, saturation = (0.6 + 0.8 * draw(stream) for stream in (3, 4, 5))
        order = list(permutations(("brightness", "contrast", "saturation", "hue")))[math.floor(draw(2) * 24)]
        for change in order:
            if change == "brightness":
                image = (brightness * image).clamp(0, 1)
            elif change == "contrast":
                image = (contrast * image + (1 - contrast) * light(image).mean()).clamp(0, 1)
            elif change == "saturation" and channels == 3:
                image = (saturation * image + (1 - saturation) * light(image)).clamp(0, 1)
            elif change == "hue" and channels == 3:
                image = turned(image, -0.1 + 0.2 * draw(6))
    return light(image).expand(3, -1, -1) if channels == 3 and draw(7) < 0.2 else image


def batch(size: int, *shape: int, key: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    keys = spread(key, torch.arange(size))
    return torch.rand(size, *shape, generator=torch.Generator().manual_seed(key), dtype=dtype), keys


@pytest.mark.parametrize(
    "shape", [(3, 8, 8), (1, 28, 28), (3, 6, 9), (3, 9, 5), (1, 3, 20), (1, 20, 3), (3, 1, 1), (1, 1, 7), (3, 2, 2)]
)
def test_equals_the_literal_version(shape: tuple[int, int, int]) -> None:
    x, keys = batch(150, *shape)
    expected = torch.stack([literal(image, key) for image, key in zip(x, keys, strict=True)])
    assert torch.allclose(augment.two_views(x, keys), expected, rtol=0, atol=1e-9)


def test_colours_at_the_edges_equal_the_literal_version() -> None:
    # Greys, pure colours and ties between channels: where a hue is undefined, or changes its formula.
    levels = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=torch.float64)
    colours = torch.cartesian_prod(levels, levels, levels).T.reshape(3, 8, 8)
    x, keys = colours.expand(100, 3, 8, 8), spread(3, torch.arange(100))
    expected = torch.stack([literal(image, key) for image, key in zip(x, keys, strict=True)])
    assert torch.allclose(augment.two_views(x, keys), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("by", [-0.6, -0.3, 0.0, 0.2, 0.6])
def test_every_hue_is_turned(by: float) -> None:
    hues = torch.arange(0, 1, 1 / 64).tolist()
    pixels = [[colorsys.hsv_to_rgb(hue, s, v) for hue in hues] for s, v in ((1, 1), (0.5, 0.8), (0.1, 0.3), (0, 0.5))]
    x = torch.tensor(pixels, dtype=torch.float64).permute(2, 0, 1).contiguous()
    result = x.clone().unsqueeze(0)
    views._turn(result, torch.tensor([by], dtype=torch.float64), torch.empty(6, 1, *x.shape[1:], dtype=torch.float64))
    assert torch.allclose(result[0], turned(x, by / 6), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 0), (torch.float32, 1e-5)])
def test_geometry_is_the_same_in_every_precision(dtype: torch.dtype, tolerance: float) -> None:
    x, keys = batch(200, 1, 16, 16)
    result = augment.two_views(x.to(dtype), keys)
    assert result.dtype == dtype
    assert (result.double() - augment.two_views(x, keys)).abs().max() <= tolerance


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_same_on_every_device() -> None:
    x, keys = batch(10_000, 3, 12, 12, dtype=torch.float32)
    assert torch.allclose(augment.two_views(x.cuda(), keys.cuda()).cpu(), augment.two_views(x, keys), atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_does_not_depend_on_its_batch(channels: int) -> None:
    x, keys = batch(259, channels, 6, 6)
    whole = augment.two_views(x, keys)
    for order in (torch.arange(len(x) - 1, -1, -7), torch.tensor([5]), torch.arange(127, len(x))):
        assert torch.equal(augment.two_views(x[order], keys[order]), whole[order])
    assert augment.two_views(x[:0], keys[:0]).shape == (0, channels, 6, 6)


def test_input_is_left_alone_and_colours_stay_colours() -> None:
    x, keys = batch(300, 3, 16, 16, dtype=torch.float32)
    before = x.clone()
    result = augment.two_views(x, keys)
    assert torch.equal(x, before)
    assert 0 <= result.min() < result.max() <= 1
    shifted = augment.two_views(x.transpose(2, 3), keys)  # not contiguous
    assert torch.equal(shifted, augment.two_views(x.transpose(2, 3).contiguous(), keys))


# ---- in distribution ----------------------------------------------------------------------------------------------


def drawn(key: int, count: int) -> Tensor:
    return geometry.draw(spread(key, torch.arange(count)), first=0, count=8 + 4 * geometry.TRIES)


def test_parts_in_distribution() -> None:
    count, side = 20_000, 128
    top, left, tall, wide = views._part(drawn(2, count), side, side).double()
    area, ratio = tall * wide / side**2, (wide / tall).log()
    # A part that does not fit is drawn again: with an area above 3/4 the ratio is narrowed. Below, all is uniform.
    small = area < 0.74
    assert abs(area[small].mean() - 0.47) < 0.005
    assert abs(area[small].std() - 0.54 / 12**0.5) < 0.005
    assert abs(ratio[small].mean()) < 0.01
    assert abs(ratio[small].std() - 2 * math.log(4 / 3) / 12**0.5) < 0.005
    assert 0.19 < area.min() < 0.21
    assert 0.97 < area.max() <= 1
    # An area a above 3/4 fits with a chance of log a / log 3/4: of all that is drawn, 0.55 + 0.119 of 0.8.
    assert abs(small.double().mean() - 0.54 / 0.669) < 0.01
    for start, length in ((top, tall), (left, wide)):
        room = side - length
        assert (start >= 0).all()
        assert (start <= room).all()
        assert abs((start[room > 9] / room[room > 9]).mean() - 0.5) < 0.01
        assert (start == 0).any()
        assert (start == room).any()


def test_what_fits_nowhere_is_the_middle() -> None:
    assert views._part(drawn(2, 50), 3, 60)[:, 0].tolist() == [0, 28, 3, 4]
    assert views._part(drawn(2, 50), 60, 3)[:, 0].tolist() == [28, 0, 4, 3]


def test_changes_in_distribution() -> None:
    count = 20_000
    *mixtures, grey, turn = views._colours(drawn(4, count), 3, torch.float64)
    own, of_light, of_mean = torch.stack(mixtures, 1)  # of shape [6, B] each
    jittered = turn[0] != 0
    assert abs(jittered.double().mean() - 0.8) < 0.01
    assert abs(grey[1].mean() - 0.2) < 0.01
    assert torch.equal(grey[0] + grey[1], torch.ones(count, dtype=torch.float64))
    assert abs(torch.corrcoef(torch.stack((jittered.double(), grey[1])))[0, 1]) < 0.03
    assert abs(turn[0][jittered].mean()) < 0.01
    assert abs(turn[0][jittered].std() - 1.2 / 12**0.5) < 0.01  # up to 0.6 sixths either way
    # Each change is made once, or never; factors are uniform from 0.6 to 1.4.
    changed = own != 1
    assert set(changed.sum(0)[jittered].tolist()) == {3}
    assert not changed[:, ~jittered].any()
    kinds = {"saturation": of_light != 0, "contrast": of_mean != 0}
    kinds["brightness"] = changed & ~kinds["saturation"] & ~kinds["contrast"]
    for kind in kinds.values():
        assert torch.equal(kind.sum(0) == 1, jittered)
        factor = own[kind]
        assert abs(factor.mean() - 1) < 0.01
        assert abs(factor.std() - 0.8 / 12**0.5) < 0.01
        assert 0.6 <= factor.min() < 0.61 < 1.39 < factor.max() <= 1.4
    # All orders are equally likely, the turn of the hue included: it comes after three steps.
    places = torch.stack([kind.double().argmax(0) for kind in kinds.values()])
    places = torch.cat((places, torch.full((1, count), 2.5)))[:, jittered]
    orders = Counter(tuple(order) for order in places.argsort(0).T.tolist())
    assert len(orders) == 24
    assert all(abs(n - 0.8 * count / 24) < 130 for n in orders.values())


def test_half_are_flipped() -> None:
    x = torch.arange(16.0).div(16).expand(4000, 1, 16, 16)
    result = augment.two_views(x, spread(5, torch.arange(4000)))[:, 0]
    slope = result[:, :, 12].mean(1) - result[:, :, 3].mean(1)
    assert abs((slope > 0).float().mean() - 0.5) < 0.03
    assert (slope != 0).all()


def test_two_keys_are_two_views() -> None:
    x, keys = batch(20, 3, 8, 8)
    first, second = (augment.two_views(x, spread(view, keys)) for view in (0, 1))
    assert (first != second).flatten(1).any(1).all()


# ---- as a preset --------------------------------------------------------------------------------------------------


def test_images_are_normalised_after_it() -> None:
    x, keys = batch(10, 3, 8, 8)
    bytes_ = (255 * x).to(torch.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    result = Transform(mean, std, "two-views").augmented(bytes_, keys, torch.float64)
    plain = augment.two_views(bytes_.double() / 255, keys)
    for channel in range(3):
        expected = (plain[:, channel] - mean[channel]) / std[channel]
        assert torch.allclose(result[:, channel], expected, atol=1e-12)
    half = Transform(mean, std, "two-views").augmented(bytes_, keys, torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert (half.double() - result).abs().max() < 0.02
    alone = Transform(augmentation="two-views").augmented(bytes_, keys, torch.float64)
    assert torch.equal(alone, plain)
    given = x.clone()
    Transform(mean, std, "two-views").augmented(given, keys, torch.float64)
    assert torch.equal(given, x)


def test_images_with_other_channels() -> None:
    with pytest.raises(DataError, match="these have 4 channels: use 'release' or 'none'"):
        augment.two_views(torch.rand(2, 4, 8, 8), torch.arange(2))
    with pytest.raises(DataError, match=r"shape \(5, 7\): use 'none'"):
        Transform(augmentation="two-views").augmented(torch.ones(5, 7), torch.arange(5), torch.float32)
