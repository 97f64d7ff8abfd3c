"""Steps that networks often make, each of which an engine sees as a whole and may do in one go.

They compute what their parts do. A network made of the parts themselves computes the same, on a GPU in more time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import wrap_torch_function


@wrap_torch_function(lambda layer, x: (x,))  # noqa: ARG005  (PyTorch's)
def activated(layer: nn.Conv2d | nn.Linear, x: Tensor) -> Tensor:
    """A convolution, or a linear layer, and its ReLU."""
    return F.relu(layer(x))


@wrap_torch_function(lambda conv, x: (x,))  # noqa: ARG005  (PyTorch's)
def pooled(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """A convolution, 2x2 max-pooling and ReLU.

    Papers put ReLU before pooling; after it there is a quarter of the work, and the same result.
    """
    return F.relu(F.max_pool2d(conv(x), 2))


STEPS: frozenset[Callable[..., Tensor]] = frozenset({activated, pooled})
"""All of them: an engine that does not do one in one go looks at its parts."""
