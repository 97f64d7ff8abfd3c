"""FML: federated mutual learning of a private and a shared model."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from potluck.algorithms.parts.mutual import MutualLearning, divergence, small_logits
from potluck.algorithms.settings import setting
from potluck.contract import Batch, Networks, Received


class FML(MutualLearning):
    """Federated mutual learning.

    The client's own model learns by ``alpha * CE + (1 - alpha) * KL(small || own)``, the shared small one ("meme") by
    ``beta * CE + (1 - beta) * KL(own || small)``, both in every batch. Each takes the other's predictions as constants,
    and KL is the sum over classes. The server averages the small models with equal weights. The client's own model
    predicts.

    The text of the paper was not available, so this follows the authors' code. The optimiser of the client's own model
    starts afresh in every round here, where it lives on there.
    """

    name: ClassVar[str] = "fml"
    title: ClassVar[str] = "FML"
    paper: ClassVar[str] = "Shen et al., Federated Mutual Learning, arXiv 2020"
    venue: ClassVar[str] = "Shen et al., arXiv 2020"

    alpha: float = setting(
        0.5, "weight of the labels against the small model, for the own one", ge=0, le=1, paper="not read; code: 0.5"
    )
    beta: float = setting(
        0.5, "weight of the labels against the own model, for the small one", ge=0, le=1, paper="not read; code: 0.5"
    )

    def mutual_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """The losses of both models, added."""
        own, small = net(batch.x), small_logits(net, batch.x)
        own_loss = self.alpha * batch.cross_entropy(own) + (1 - self.alpha) * divergence(small, own, batch)
        return own_loss + self.beta * batch.cross_entropy(small) + (1 - self.beta) * divergence(own, small, batch)
