"""Transforms of one image at a time, as they are usually written: what batched ones are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance
from torch import Tensor

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def to_tensor(picture: Image.Image) -> Tensor:
    """An image as numbers from 0 to 1, channels first, normalised."""
    values = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous().float().div(255)
    mean, std = torch.as_tensor(MEAN).view(-1, 1, 1), torch.as_tensor(STD).view(-1, 1, 1)
    return values.sub_(mean).div_(std)


def integer(below: int) -> int:
    """A random number from 0."""
    return int(torch.randint(0, below, (1,)))


def between(low: float, high: float) -> float:
    """A random number."""
    return float(torch.empty(1).uniform_(low, high))


def release_alone(picture: Image.Image) -> Tensor:
    """Flip, erase and shift, on tensors, as the papers' released code does."""
    x = to_tensor(picture)
    height, width = x.shape[1:]
    if torch.rand(1) < 0.5:
        x = x.flip(-1)
    if torch.rand(1) < 0.5:
        for _ in range(10):
            area = height * width * between(0.04, 0.2)
            ratio = math.exp(between(math.log(0.5), math.log(2)))
            tall, wide = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if tall < height and wide < width:
                top, left = integer(height - tall + 1), integer(width - wide + 1)
                x = x.clone()
                x[:, top : top + tall, left : left + wide] = 0
                break
    padded = F.pad(x, (4, 4, 4, 4))
    top, left = integer(9), integer(9)
    return padded[:, top : top + height, left : left + width]


def random_part(width: int, height: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a random part."""
    for _ in range(10):
        area = height * width * between(0.2, 1)
        ratio = math.exp(between(math.log(3 / 4), math.log(4 / 3)))
        wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < tall <= height:
            top, left = integer(height - tall + 1), integer(width - wide + 1)
            return left, top, left + wide, top + tall
    return 0, 0, width, height


def turned(picture: Image.Image, by: float) -> Image.Image:
    """Another hue."""
    hue, saturation, value = picture.convert("HSV").split()
    shifted = np.array(hue, dtype=np.uint8) + np.uint8(int(by * 255) % 256)
    return Image.merge("HSV", (Image.fromarray(shifted), saturation, value)).convert("RGB")


def views_alone(picture: Image.Image) -> Tensor:
    """Crop, flip and change colours, on Pillow's images, as FedClassAvg's released code does."""
    picture = picture.crop(random_part(*picture.size)).resize(picture.size, Image.Resampling.BILINEAR)
    if torch.rand(1) < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if torch.rand(1) < 0.8:
        brightness, contrast, saturation = between(0.6, 1.4), between(0.6, 1.4), between(0.6, 1.4)
        hue = between(-0.1, 0.1)
        for change in torch.randperm(4).tolist():
            if change == 0:
                picture = ImageEnhance.Brightness(picture).enhance(brightness)
            elif change == 1:
                picture = ImageEnhance.Contrast(picture).enhance(contrast)
            elif change == 2:
                picture = ImageEnhance.Color(picture).enhance(saturation)
            else:
                picture = turned(picture, hue)
    if torch.rand(1) < 0.2:
        picture = picture.convert("L").convert("RGB")
    return to_tensor(picture)


def from_torchvision() -> dict[str, Callable[[Image.Image], Tensor]]:
    """The same two, made of torchvision's own transforms; empty where it is not installed."""
    try:
        from torchvision import transforms  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return {}
    finish = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    jitter = transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)
    return {
        "release": transforms.Compose(
            [
                *finish,
                transforms.RandomHorizontalFlip(),
                transforms.RandomErasing(0.5, (0.04, 0.2), (0.5, 2)),
                transforms.RandomCrop(32, padding=4),
            ]
        ),
        "two-views": transforms.Compose(
            [
                transforms.RandomResizedCrop(32, scale=(0.2, 1)),
                transforms.RandomHorizontalFlip(),
                transforms.RandomApply([jitter], 0.8),
                transforms.RandomGrayscale(0.2),
                *finish,
            ]
        ),
    }
