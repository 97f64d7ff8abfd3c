"""What is to be learned: known to every client and to the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from potluck.errors import ModelError


@dataclass(frozen=True)
class Task:
    """A classification task, as far as everyone may know it.

    Attributes:
        shape: Shape of one input, without the batch dimension.
        classes: Number of classes of the whole federation.
        clients: Number of clients of the federation.
        public: Number of samples that everybody may see.
        width: Width of the representation, where all clients' models agree on it.
        model: Makes the model that all clients hold, with the weights they start from together, where all hold the
            same architecture.
    """

    shape: tuple[int, ...]
    classes: int
    clients: int = 1
    public: int = 0
    width: int | None = None
    model: Callable[[], nn.Module] | None = None

    def common_model(self) -> nn.Module:
        """A fresh copy of the one architecture that all clients hold."""
        if self.model is None:
            raise ModelError("this needs one architecture on every client, and the clients' models differ.")
        return self.model()

    def common_width(self) -> int:
        """The representation width that all clients' models agree on."""
        if self.width is None:
            raise ModelError(
                "this needs the same representation width on every client, and the clients' models differ."
            )
        return self.width
