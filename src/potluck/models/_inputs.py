"""What a network for images can take."""

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
