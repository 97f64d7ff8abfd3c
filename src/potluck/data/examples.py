"""Samples, held once and shared: a client's data are rows of a source that many clients point into."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.errors import DataError


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and labels, or the ``rows`` of them that belong to one client.

    Ten thousand clients can share one source in memory; nothing is copied until a batch is taken, or until somebody
    asks for all of a client's inputs (``x``) or labels (``y``).

    Attributes:
        whole_x: The inputs of the source.
        whole_y: The labels of the source.
        rows: Which of them these samples are, as numbers from 0 on their device; None for all.

    >>> source = torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 0, 1])
    >>> mine = Examples(*source, rows=torch.tensor([3, 1]))
    >>> len(mine), mine.x.tolist(), mine.y.tolist(), len(mine.whole_x)
    (2, [[6.0, 7.0], [2.0, 3.0]], [1, 1], 4)
    """

    whole_x: Tensor
    whole_y: Tensor
    rows: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse inputs and labels that do not belong together."""
        x, y = self.whole_x, self.whole_y
        for what, tensor in (("inputs", x), ("labels", y)):
            if (reason := not_numbers(tensor)) is not None:
                raise DataError(f"{what} must be dense tensors of numbers, with a dimension of samples: {reason}.")
        if len(x) != len(y):
            raise DataError(f"{len(x)} inputs come with {len(y)} labels: give one label per input.")
        if y.dtype == torch.bool:
            raise DataError("labels are the numbers of classes, not true and false: give labels.long().")
        if y.ndim != 1 or y.is_floating_point() or y.is_complex():
            raise DataError(f"labels must be a vector of whole numbers, not {y.dtype} of shape {tuple(y.shape)}.")

    def __len__(self) -> int:
        return len(self.whole_y) if self.rows is None else len(self.rows)

    @property
    def x(self) -> Tensor:
        """The inputs of these samples, copied where they are rows of a larger source."""
        return self.whole_x if self.rows is None else self.whole_x.index_select(0, self.rows)

    @property
    def y(self) -> Tensor:
        """The labels of these samples, copied where they are rows of a larger source."""
        return self.whole_y if self.rows is None else self.whole_y.index_select(0, self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.whole_x.shape[1:])

    @property
    def device(self) -> torch.device:
        """Where the samples are."""
        return self.whole_y.device

    def take(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels at ``positions``, counted within these samples."""
        rows = positions if self.rows is None else self.rows[positions]
        # Whole rows: ``x[rows]`` goes number by number, which takes ten times as long for images of bytes.
        return self.whole_x.index_select(0, rows), self.whole_y.index_select(0, rows).to(torch.int64)

    def only(self, positions: Tensor) -> Examples:
        """The samples at ``positions``, without copying any."""
        return Examples(self.whole_x, self.whole_y, positions if self.rows is None else self.rows[positions])

    def to(self, device: torch.device, moved: dict[int, Tensor] | None = None) -> Examples:
        """These samples on a device; ``moved`` remembers what was copied, so that clients go on sharing a source."""
        if self.device == device:
            return self
        moved = {} if moved is None else moved
        for tensor in (self.whole_x, self.whole_y):
            if id(tensor) not in moved:
                moved[id(tensor)] = tensor.to(device)
        rows = None if self.rows is None else self.rows.to(device)
        return Examples(moved[id(self.whole_x)], moved[id(self.whole_y)], rows)


def not_numbers(tensor: Tensor) -> str | None:
    """Why a tensor is no dense array of numbers in memory, one row per sample; None if it is."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        return f"this one is {kind}; give to_dense() of a sparse one, and pad a nested one"
    if tensor.is_quantized:
        return "this one is quantised; give dequantize() of it"
    if tensor.device.type == "meta":
        return "this one is on the meta device and has no numbers"
    if tensor.ndim == 0:
        return "this one is a single number"
    return None


def check_inputs(x: Tensor, whose: str) -> None:
    """Refuse inputs whose numbers networks could not take as they are.

    Networks compute in numbers with a fraction. Bytes are taken for images, of two dimensions at least, and divided by
    255; other whole numbers may be ids of words, amounts or 16-bit images, and what they are to become is not guessed.
    """
    if (reason := not_numbers(x)) is not None:
        raise DataError(f"{whose} must be dense tensors of numbers, with a dimension of samples: {reason}.")
    if x.is_complex():
        raise DataError(f"{whose} are complex: give real numbers, such as torch.view_as_real(x).")
    if x.dtype == torch.uint8:
        if x.ndim < 3:
            raise DataError(
                f"{whose} are bytes of shape {tuple(x.shape[1:])}: bytes are divided by 255 as those of images, and "
                "these are no images. Give x.float() for the same numbers, or x.float() / 255."
            )
    elif not x.is_floating_point():
        raise DataError(
            f"{whose} are of type {str(x.dtype).removeprefix('torch.')}: give x.float() if they are amounts. Ids of "
            "words are not supported yet: give vectors that they stand for."
        )
