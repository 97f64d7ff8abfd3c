"""pFedES: a small feature extractor before every client's own model carries knowledge between unlike models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

from potluck.algorithms.base import Algorithm
from potluck.algorithms.settings import setting
from potluck.contract import Batch, Group, Networks, Phase, Received, Round, Task
from potluck.models import extractor
from potluck.settings import MOST


class PFedES(Algorithm):
    """Proxy feature extractor sharing.

    Every client k holds its own heterogeneous model F_k(w_k), which never leaves it, and a small proxy extractor
    G(theta), whose output has the shape of its input. A round is iterative training:

    1. G is frozen as received. F_k learns from the enhanced data G(x) and from the original data x by
       ``mu * CE(F_k(G(x)), y) + (1 - mu) * CE(F_k(x), y)`` (equations 4 to 7 of the AAAI paper).
    2. F_k is frozen as trained, in evaluation mode. G learns by ``CE(F_k(G(x)), y)`` (equations 8 to 10).

    The server averages the extractors, weighted by training samples (11). F_k alone predicts, so only the pass on x
    updates its batch-norm statistics. ``training = "simultaneous"`` trains both at once, which the paper argues
    against. Its loss is in an appendix that was not available; here it is that of step 1, which scales the gradient of
    G by mu.
    """

    name: ClassVar[str] = "pfedes"
    title: ClassVar[str] = "pFedES"
    paper: ClassVar[str] = (
        "Yi et al., pFedES: Generalized Proxy Feature Extractor Sharing for Model Heterogeneous Personalized "
        "Federated Learning, AAAI 2025 (first version: arXiv 2023)"
    )
    venue: ClassVar[str] = "Yi et al., AAAI 2025"
    down: ClassVar[str] = "the extractor"
    up: ClassVar[str] = "the extractor"
    shared: ClassVar[tuple[str, ...]] = ("extractor",)

    mu: float = setting(
        0.1,
        "weight of the enhanced data in the model's loss",
        gt=0,
        le=0.5,
        paper="0.1 to 0.5, the best test accuracy at 0.1 (arXiv version, section 10, 100 clients); code: 0.5",
    )
    extractor_epochs: int = setting(
        5,
        "epochs of step 2, training the extractor (E_fe)",
        ge=1,
        le=MOST,
        paper="5, 10, 15 and 20, the best test accuracy at 5 (arXiv version, section 10, 100 clients); "
        "code: the local epochs E for equal models, E + 10 for different ones",
        values=(10, 15, 20),
    )
    extractor_learning_rate: float | None = setting(
        None,
        "learning rate of the extractor; the run's own by default",
        gt=0,
        paper="0.01, the run's own",
        values=(0.01,),
    )
    extractor_width: int = setting(
        8, "channels between the extractor's two layers", ge=1, le=4096, paper="not said; code: 8"
    )
    extractor_layers: int = setting(2, "layers of the extractor", ge=1, le=8, paper="2")
    training: Literal["iterative", "simultaneous"] = setting(
        "iterative", "the paper's two steps, or both networks at once", paper="iterative; both in its ablation"
    )

    def networks(self, model: nn.Module, task: Task) -> dict[str, nn.Module]:
        """The client's own model, and the extractor."""
        return {**super().networks(model, task), **self.server_networks(task)}

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        """The extractor. For another structure, override this: it must give back the shape that it is given."""
        return {"extractor": extractor.same_size_extractor(task.shape, self.extractor_width, self.extractor_layers)}

    def phases(self, round: Round) -> Sequence[Phase]:
        """Step 1 and step 2."""
        proxy = Group(("extractor",), learning_rate=self.extractor_learning_rate)
        if self.training == "simultaneous":
            return (Phase(train=("body", "head", proxy), loss=self.model_loss),)
        return (
            Phase(train=("body", "head"), loss=self.model_loss),
            Phase(train=(proxy,), loss=self.extractor_loss, epochs=self.extractor_epochs),
        )

    def model_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Equation 6: both inputs, weighted; batch norm's running statistics are those of the original data."""
        enhanced, original = net.each(net.extractor(batch.x), batch.x, tracked=1)
        return self.mu * batch.cross_entropy(enhanced) + (1 - self.mu) * batch.cross_entropy(original)

    def extractor_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Equation 9: the enhanced data through the frozen model."""
        return batch.cross_entropy(net(net.extractor(batch.x)))
