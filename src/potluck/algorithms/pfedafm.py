"""pFedAFM: a client's own features and those of a small shared extractor, mixed by a vector that each client learns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from potluck.algorithms.base import Algorithm, Need
from potluck.algorithms.parts.projection import between_0_and_1
from potluck.algorithms.parts.small_model import SETTING, small_model
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload
from potluck.contract import Batch, Group, Networks, Phase, Received, Round, Task


class Mixer(nn.Module):
    """The vector alpha: in each dimension the weight of the client's own features against the shared ones."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, own: Tensor, shared: Tensor) -> Tensor:
        """Equation 3: ``alpha * own + (1 - alpha) * shared``."""
        return self.weight * own + (1 - self.weight) * shared


class PFedAFM(Algorithm):
    """Adaptive feature mixture.

    Every client k holds its own model (an extractor F_ex, here ``body``, and a ``head``), a mixing vector alpha_k that
    starts at 1, and the shared small extractor G (CNN-5 without its head). A round is iterative training:

    1. G is frozen as received. Model and alpha_k learn from the mixed features by
       ``CE(head(alpha * F_ex(x) + (1 - alpha) * G(x)), y)`` (equations 2 to 6). Equation 6 gives alpha a learning rate
       and nothing else: the run's momentum, weight decay and clipping do not apply to it, its schedule does.
    2. The head is frozen as trained in step 1 (equation 8; Algorithm 1 prints that of the round before). G learns by
       ``CE(head(G(x)), y)`` (equations 7 to 10).

    The server averages G, weighted by training samples (11). A client predicts with the mixture, and G as the server
    sent it at the start of the round; Algorithm 1 ends with the average made after the last round.
    ``training = "end-to-end"`` trains everything at once by the loss of step 1, which the paper argues against.
    ``aggregation = "last"`` takes the G of the cohort's last client (by id) in place of the average, as the released
    code does by mistake. There the clients of a round also pass alpha on from one to the next; here each keeps its own.
    """

    name: ClassVar[str] = "pfedafm"
    title: ClassVar[str] = "pFedAFM"
    paper: ClassVar[str] = (
        "Yi et al., pFedAFM: Adaptive Feature Mixture for Batch-Level Personalization in Heterogeneous Federated "
        "Learning, arXiv 2024"
    )
    venue: ClassVar[str] = "Yi et al., arXiv 2024"
    down: ClassVar[str] = "the small extractor"
    up: ClassVar[str] = "the small extractor"
    needs: ClassVar[frozenset[Need]] = frozenset({"equal width"})
    shared: ClassVar[tuple[str, ...]] = ("extractor",)

    mixer_learning_rate: float = setting(
        0.1,
        "learning rate of the mixing vector (eta_alpha)",
        gt=0,
        paper="0.001, 0.01, 0.1, 1; code: 0.1 for equal models, 0.01 for different ones",
        values=(0.001, 0.01, 1),
    )
    mixing: Literal["bounded", "free"] = setting(
        "bounded", "whether the mixing vector is kept between 0 and 1", paper="not said; code: bounded"
    )
    small_model: str = setting("auto", SETTING, paper="CNN-5")
    training: Literal["iterative", "end-to-end"] = setting(
        "iterative", "the paper's two steps, or everything at once", paper="iterative; both in its Figure 9"
    )
    predict_with: Literal["mixed", "small", "large"] = setting(
        "mixed", "the features that predict: mixed, of the small extractor, of the own model", paper="all in Figure 9"
    )
    aggregation: Literal["mean", "last"] = setting(
        "mean", "the average, or the last client's extractor", paper="mean; code: last"
    )

    def networks(self, model: nn.Module, task: Task) -> dict[str, nn.Module]:
        """The client's own model, its mixing vector, and the small extractor."""
        return {
            **super().networks(model, task),
            "mixer": Mixer(task.common_width()),
            **self.server_networks(task),
        }

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        """The small extractor. For another one, override this: its output must be as wide as the clients' own."""
        return {"extractor": small_model(self.small_model, task, task.common_width())["body"]}

    def phases(self, round: Round) -> Sequence[Phase]:
        """Step 1 and step 2."""
        project = between_0_and_1 if self.mixing == "bounded" else None
        rate = self.mixer_learning_rate
        mixer = Group(("mixer",), rate, momentum=0.0, weight_decay=0.0, clip_norm=math.inf, project=project)
        if self.training == "end-to-end":
            return (Phase(train=("body", "head", mixer, Group(("extractor",))), loss=self.mixed_loss),)
        return (
            Phase(train=("body", "head", mixer), loss=self.mixed_loss),
            Phase(train=("extractor",), loss=self.extractor_loss),
        )

    def mixed_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Equation 5: both features, mixed."""
        return batch.cross_entropy(net.head(net.mixer(net.body(batch.x), net.extractor(batch.x))))

    def extractor_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Equation 9: the shared features through the frozen head."""
        return batch.cross_entropy(net.head(net.extractor(batch.x)))

    def predict(self, net: Networks, x: Tensor, received: Received) -> Tensor:
        """The mixed model, or one part of it (the paper's Figure 9)."""
        if self.predict_with == "large":
            return net(x)
        features = net.call("extractor", x, weights=received)
        return net.head(features if self.predict_with == "small" else net.mixer(net.body(x), features))

    def observe(self, state: State) -> dict[str, float]:
        """The mean of alpha (the paper's Figure 8)."""
        return {"mixing": float(state["mixer.weight"].double().mean())}

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """Equation 11, or the last client's."""
        if self.aggregation == "last":
            return dict(uploads[-1].payload.tensors)
        return super().aggregate(state, uploads, round, task)
