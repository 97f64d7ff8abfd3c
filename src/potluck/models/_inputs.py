"""What a network for images can take, and what is left of an image in it."""

from __future__ import annotations

from potluck.errors import ModelError


def image_shape(network: str, shape: tuple[int, ...], classes: int, smallest: int = 1) -> tuple[int, int, int]:
    """Channels, height and width of an image; a ModelError that names the network if it cannot take such images.

    Args:
        network: What the network is called.
        shape: Shape of one input, without the batch.
        classes: How many classes there are.
        smallest: Fewest pixels that a side may have.
    """
    if len(shape) != 3:
        raise ModelError(f"{network} takes images [channels, height, width], not inputs of shape {list(shape)}.")
    channels, height, width = shape
    if min(height, width) < smallest or channels < 1:
        raise ModelError(
            f"{network} cannot take images of shape {list(shape)}: it needs at least one channel and "
            f"{smallest}x{smallest} pixels. Enlarge the images, or choose another model."
        )
    if classes < 1:
        raise ModelError(f"{network} needs at least one class, not {classes}.")
    return channels, height, width


SMALLEST_FOR_TWO = 16
"""16 -> 12 -> 6 -> 2 -> 1: of a smaller image :func:`left_after_two` leaves nothing."""


def left_after_two(side: int) -> int:
    """Pixels of a side that are left after two unpadded 5x5 convolutions, each followed by 2x2 pooling.

    >>> left_after_two(32), left_after_two(28), left_after_two(SMALLEST_FOR_TWO)
    (5, 4, 1)
    """
    return ((side - 4) // 2 - 4) // 2
