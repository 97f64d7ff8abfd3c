"""Networks of every make to cut: first those that can be cut, then those that cannot."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class OutOfOrder(nn.Module):
    """The layer called last is registered first."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)
        self.first = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.last(F.relu(self.first(x)))
        return output


class Functional(nn.Module):
    """Everything but the layers is written out in ``forward``, and the last layer is called by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.fc = nn.Linear(2 * 6 * 6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(F.relu(self.conv(x)), 0.3, self.training) * self.scale
        output: Tensor = self.fc(input=x.flatten(1))
        return output


class Nested(nn.Module):
    """The last layer lies deep in a classifier that does more than that."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.ModuleDict(
            {"net": nn.Sequential(nn.ReLU(), nn.Sequential(nn.Dropout(0.4), nn.Linear(6, 3)))}
        )
        self.features = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.classifier["net"](self.features(x))
        return output


class Residual(nn.Module):
    """A layer used several times, and a skip around it; the last layer also has a second name."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(8, 8)
        self.fc = nn.Linear(8, 3)
        self.classifier = self.fc

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + torch.tanh(self.again(x))
        output: Tensor = self.classifier(x)
        return output


class SideBranch(nn.Module):
    """A branch that is called after the last layer and thrown away."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.side = nn.Linear(8, 3), nn.Linear(8, 3)
        self.seen = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.fc(x)
        self.seen = self.side(x).sum().detach()
        return output


class Attention(nn.Module):
    """PyTorch's attention holds a linear layer that is never called as one."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 2, 4)
        output: Tensor = self.fc(self.attention(x, x, x, need_weights=False)[0].mean(1))
        return output


def zero_head() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
    for parameter in model[2].parameters():
        nn.init.zeros_(parameter)
    return model


def conv_bn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )


class Pair(nn.Module):
    """A model that says itself what its body and its head are."""

    def __init__(self, body: nn.Module, head: nn.Module, after: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.head, self.after = body, head, after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.after(self.head(self.body(x)))
        return output


class Cosine(nn.Module):
    """A head without any linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x) @ F.normalize(self.weight).T


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.fc(torch.tanh(self.fc(x)))
        return output


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.last.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.last(torch.tanh(self.first(x)))
        return output


class Listed(nn.Module):
    """Calls its layers through a plain list, of which the cut knows nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 3)
        self.layers = [self.fc]

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers[0](x)
        return output


class ByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.fc.weight, self.fc.bias)


class LooksAtIt(ByHand):
    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.fc(x.view(-1, self.fc.in_features))
        return output


class TwoInputs(nn.Bilinear):
    def __init__(self) -> None:
        super().__init__(8, 8, 3)


class Auxiliary(ByHand):
    """Gives a second output in training only, as GoogLeNet does."""

    def forward(self, x: Tensor) -> Any:
        output = self.fc(x)
        return (output, output) if self.training else output


class Reshaped(ByHand):
    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.fc(x)
        return output.unsqueeze(1)


class Uncopyable(ByHand):
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise RuntimeError("not me")
